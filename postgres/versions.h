/*
 * versions.h -- where the versions of PostgreSQL differ.
 */
#ifndef EBBPOOL_VERSIONS_H
#define EBBPOOL_VERSIONS_H

#include "storage/buf_internals.h"

/* What the patches are for. In each of them bit by bit the same: state, usage count and BM_ flags of a descriptor. */
#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "the module reads buffer descriptors of PostgreSQL 15 to 18; build it with the pg_config of a server of these"
#endif

#define EBB_BUILD_A_SERVER "Build a server with \"postgres/build server DIRECTORY --major " PG_MAJORVERSION "\""

#if PG_VERSION_NUM >= 160000

/*
 * A victim loses its page first, and gets its new one later, or never: a process takes several victims to extend a relation,
 * and one that finds the page read by another process frees its victim.
 */
#define EBB_VICTIMS_ARE_EMPTIED 1

/* StrategyGetBuffer has other parameters, and has been tried on no server of Debian. */
#define EBB_CAN_REDIRECT 0

#define ebb_tablespace_of(tag) ((tag)->spcOid)
#define ebb_relation_of(tag) BufTagGetRelNumber(tag)
#define ebb_database_of(tag) ((tag)->dbOid)
#define ebb_fork_of(tag) BufTagGetForkNum(tag)
#define ebb_tags_equal(one, other) BufferTagsEqual(one, other)

/* Memory that the server frees with a setting. */
#define ebb_extra_malloc(bytes) guc_malloc(LOG, bytes)

#else

#define EBB_VICTIMS_ARE_EMPTIED 0
#define EBB_CAN_REDIRECT 1
#define ebb_tablespace_of(tag) ((tag)->rnode.spcNode)
#define ebb_relation_of(tag) ((tag)->rnode.relNode)
#define ebb_database_of(tag) ((tag)->rnode.dbNode)
#define ebb_fork_of(tag) ((tag)->forkNum)
#define ebb_tags_equal(one, other) BUFFERTAGS_EQUAL(*(one), *(other))
#define ebb_extra_malloc(bytes) malloc(bytes)

#endif

#endif							/* EBBPOOL_VERSIONS_H */
