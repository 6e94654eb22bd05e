/*
 * advise.c -- the advisor: what other policies and other sizes of shared_buffers would have read and written.
 *
 * A background worker looks at the descriptors of the buffers many times a second (samples.c), and has miniature buffers see
 * the pages that it samples (miniatures.c). It calls nothing in the server's other processes, changes nothing in the
 * descriptors, and publishes its counters in shared memory (advice.c shows them). If it fails it ends, and the postmaster
 * starts it again.
 *
 * While a policy of the module names victims it takes the hits out of the descriptors, and the advisor gets
 * those of sampled pages from it (follow.c).
 */
#include "advise.h"

#include <dlfcn.h>
#include <sys/resource.h>

#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* Milliseconds between two times that it publishes. */
#define PUBLISH_EVERY 2000
/* Seconds until the postmaster starts it again after an error. */
#define RESTART_AFTER 10
/* One page of 16 is a sample, or fewer if a miniature of the server's size has FRAMES then; more if it had not LEAST_FRAMES. */
#define ONE_OF 16
#define FRAMES 512
#define LEAST_FRAMES 128
/* Milliseconds between two times that it reads what a policy sees. */
#define SHORTEST 10.0
#define LONGEST 200.0
/* What it takes hits for, it does not do again for so many times as long. */
#define MOST_SHARE 100

typedef struct EbbAdviseShared
{
	LWLock	   *lock;
	uint32		resets;			/* how many were asked for */
	EbbAdvice	advice;
} EbbAdviseShared;

bool		ebb_advise;

static EbbAdviseShared *shared = NULL;
static shmem_request_hook_type previous_request;
static shmem_startup_hook_type previous_startup;

/* Of the worker: counters since it began, of which those at the last reset are taken. */
static EbbAdvice advice;
static EbbAdvice at_reset;
static uint32 resets;
/* Of the policy when the worker began: its place among those that were made, and what it had named. */
static uint32 made;
static uint64 victims;

/* Milliseconds between two times that it takes hits out of the descriptors, and when it is to do so again, by ebb_clock_ms. */
static double between;
static double due;

/* Pages that came by the server's counters of reads and of new pages, and as many as these were the time before. */
static uint64 counted;
static uint64 counted_before;

PGDLLEXPORT void ebbpool_advise_main(Datum argument);

/* ---- the server's counters ---- */

/* A counter of the server as the worker last read it, and when it had last been reset. */
typedef struct Counter
{
	uint64		value;
	TimestampTz reset_at;
} Counter;

/* By how much a counter has grown. If it was reset, what it has now came since then. */
static uint64
growth(Counter *before, uint64 now, TimestampTz reset_at)
{
	bool		was_reset = reset_at != before->reset_at || now < before->value;
	uint64		by = was_reset ? now : now - before->value;

	*before = (Counter) {.value = now, .reset_at = reset_at};
	return by;
}

static Counter last_allocated;
static uint64 last_redirected;
static Counter last_writes;
#if PG_VERSION_NUM >= 160000
static Counter last_reads;
static Counter last_extended;
#endif

#if PG_VERSION_NUM >= 160000
/* Pages of tables and indices, but for temporary ones. */
static uint64
pages_of_all(IOOp operation)
{
	PgStat_IO  *io = pgstat_fetch_stat_io();
	uint64		pages = 0;

	for (int type = 0; type < BACKEND_NUM_TYPES; type++)
		for (int context = 0; context < IOCONTEXT_NUM_TYPES; context++)
#if PG_VERSION_NUM >= 180000
			pages += io->stats[type].bytes[IOOBJECT_RELATION][context][operation] / BLCKSZ;
#else
			pages += io->stats[type].counts[IOOBJECT_RELATION][context][operation];
#endif
	return pages;
}
#endif

/* Written pages of tables and indices. */
static uint64
writes_of_all(void)
{
#if PG_VERSION_NUM >= 160000
	return pages_of_all(IOOP_WRITE);
#else
	PgStat_CheckpointerStats *checkpointer = pgstat_fetch_stat_checkpointer();

	/* What backends have written it reports when it wakes, which may take minutes. */
	if (ProcGlobal->checkpointerLatch)
		SetLatch(ProcGlobal->checkpointerLatch);
	return checkpointer->buf_written_checkpoints + checkpointer->buf_written_backend +
		pgstat_fetch_stat_bgwriter()->buf_written_clean;
#endif
}

#if PG_VERSION_NUM >= 160000

static uint64
growth_of_reads(void)
{
	return growth(&last_reads, pages_of_all(IOOP_READ), pgstat_fetch_stat_io()->stat_reset_timestamp);
}

#else

typedef struct DatabaseReads
{
	Oid			database;
	uint32		round;
	Counter		reads;
	PgStat_Counter fetched;
	PgStat_Counter committed;
} DatabaseReads;

static HTAB *databases = NULL;
static uint32 rounds;

/* Reads of temporary tables, which have buffers of their own, are among these. */
static uint64
growth_of_database(Oid database)
{
	bool		found;
	DatabaseReads *it = hash_search(databases, &database, HASH_ENTER, &found);
	PgStat_StatDBEntry none = {0};
	PgStat_StatDBEntry *entry = pgstat_fetch_stat_dbentry(database);

	if (!found)
		*it = (DatabaseReads) {.database = database};
	if (!entry)
		entry = &none;
	it->round = rounds;
	/* A reset of one table's counters sets the database's time of reset, too, and leaves the database's counters. */
	if (entry->n_blocks_fetched >= it->fetched && entry->n_xact_commit >= it->committed)
		it->reads.reset_at = entry->stat_reset_timestamp;
	it->fetched = entry->n_blocks_fetched;
	it->committed = entry->n_xact_commit;
	return growth(&it->reads, entry->n_blocks_fetched - entry->n_blocks_hit, entry->stat_reset_timestamp);
}

static void
forget_dropped_databases(void)
{
	HASH_SEQ_STATUS status;
	DatabaseReads *it;

	hash_seq_init(&status, databases);
	while ((it = hash_seq_search(&status)) != NULL)
		if (it->round != rounds)
			hash_search(databases, &it->database, HASH_REMOVE, NULL);
}

/* What all have read since the last time: a database that is dropped takes its counter with it, and each may be reset. */
static uint64
growth_of_reads(void)
{
	uint64		reads;
	Relation	relation;
	TableScanDesc scan;
	HeapTuple	tuple;

	if (!databases)
	{
		HASHCTL		info = {.keysize = sizeof(Oid), .entrysize = sizeof(DatabaseReads), .hcxt = TopMemoryContext};

		databases = hash_create("ebbpool databases", 64, &info, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	rounds++;
	/* In the memory of the transaction, which is freed. */
	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	reads = growth_of_database(InvalidOid);
	relation = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(relation, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
		reads += growth_of_database(((Form_pg_database) GETSTRUCT(tuple))->oid);
	table_endscan(scan);
	table_close(relation, AccessShareLock);
	CommitTransactionCommand();
	forget_dropped_databases();
	return reads;
}

#endif

/* The background writer, which may sleep for ten seconds before it counts the last buffers, is one of these processes. */
static void
wake_auxiliary_processes(void)
{
	for (int i = 0; i < NUM_AUXILIARY_PROCS; i++)
	{
		PGPROC	   *proc = &ProcGlobal->allProcs[MaxBackends + i];

		if (proc->pid != 0)
			SetLatch(&proc->procLatch);
	}
}

/*
 * Adds what the server has counted since the last time. The background writer counts buffers several times a second, or when it
 * is woken, and a read or a new page counts only when its transaction ends: what was counted at the time before beyond the
 * buffers of now, since the advisor began, came through rings.
 */
static void
count_server(EbbServerCounts *counts)
{
	PgStat_BgWriterStats *writer;

	pgstat_clear_snapshot();
	counted_before = counted;
	counted += growth_of_reads();
	writer = pgstat_fetch_stat_bgwriter();
	counts->allocated += growth(&last_allocated, writer->buf_alloc, writer->stat_reset_timestamp);
	if (ebb_shared)
	{
		uint64		redirected = pg_atomic_read_u64(&ebb_shared->redirected_victims);

		counts->allocated += redirected - last_redirected;
		last_redirected = redirected;
	}
#if PG_VERSION_NUM >= 160000
	counts->writes += growth(&last_writes, writes_of_all(), pgstat_fetch_stat_io()->stat_reset_timestamp);
	{
		uint64		extended = growth(&last_extended, pages_of_all(IOOP_EXTEND), pgstat_fetch_stat_io()->stat_reset_timestamp);

		counts->extended += extended;
		counted += extended;
	}
#else
	/* The counts of the checkpointer and of the background writer are reset together. */
	counts->writes += growth(&last_writes, writes_of_all(), writer->stat_reset_timestamp);
#endif
	if (counted_before > counts->allocated + counts->rings)
		counts->rings = counted_before - counts->allocated;
	if (counted > counts->allocated + counts->rings)
		wake_auxiliary_processes();
}

/* ---- publishing ---- */

static double
cpu_ms(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
}

static void
read_counters(void)
{
	ebb_miniatures_serve();
	ebb_miniatures_counts(advice.miniatures);
	count_server(&advice.server);
	advice.until = GetCurrentTimestamp();
	advice.cpu_ms = cpu_ms();
}

static void
publish(void)
{
	EbbAdvice	now;

	read_counters();
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (shared->resets != resets)
	{
		resets = shared->resets;
		at_reset = advice;
		at_reset.since = advice.until;
	}
	now = advice;
	now.works = true;
	now.asymmetry = ebb_asymmetry;
	now.since = at_reset.since;
	now.server.rings -= at_reset.server.rings;
	now.server.allocated -= at_reset.server.allocated;
	now.server.writes -= at_reset.server.writes;
	now.server.extended -= at_reset.server.extended;
	for (int i = 0; i < EBB_MINIATURES; i++)
	{
		now.miniatures[i].reads -= at_reset.miniatures[i].reads;
		now.miniatures[i].writes -= at_reset.miniatures[i].writes;
	}
	now.looks -= at_reset.looks;
	now.resident -= at_reset.resident;
	now.hand -= at_reset.hand;
	now.lost -= at_reset.lost;
	now.samples -= at_reset.samples;
	now.found -= at_reset.found;
	now.hits -= at_reset.hits;
	now.guessed -= at_reset.guessed;
	now.cpu_ms -= at_reset.cpu_ms;
	shared->advice = now;
	LWLockRelease(shared->lock);
}

/* What is published, or false if the module was not loaded at the server's start. */
bool
ebb_copy_advice(EbbAdvice *to)
{
	if (!shared)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	*to = shared->advice;
	LWLockRelease(shared->lock);
	return true;
}

bool
ebb_request_reset(void)
{
	if (!shared)
		return false;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->resets++;
	LWLockRelease(shared->lock);
	return true;
}

/* ---- the worker ---- */

static uint32
one_of(void)
{
	uint32		rate = ONE_OF;

	while (NBuffers / rate >= 2 * FRAMES)
		rate *= 2;
	while (rate > 1 && NBuffers / rate < LEAST_FRAMES)
		rate /= 2;
	return rate;
}

/* Whether a policy of the module names victims. */
static bool
policy_is_at_work(void)
{
	return ebb_shared && ebb_works() && pg_atomic_read_u32(&ebb_shared->enabled);
}

/* The pair of the server's size that has the policy which names victims, or -1. */
static int
pair_of_policy(void)
{
	char		name[EBB_MAX_SPEC];
	char	   *rest;
	char	   *policy;

	LWLockAcquire(ebb_shared->lock, LW_SHARED);
	strlcpy(name, ebb_shared->policy_name, sizeof name);
	LWLockRelease(ebb_shared->lock);
	/* The library takes " ebb:" for the same, too. */
	policy = strtok_r(name, " :", &rest);
	if (!policy || strtok_r(NULL, " :", &rest))
		return -1;
	for (int i = EBB_MINIATURE_OF_CLOCK + 1; i < EBB_MINIATURES; i++)
		if (ebb_pairs[i].numerator == ebb_pairs[i].denominator && strcmp(ebb_pairs[i].policy, policy) == 0)
			return i;
	return -1;
}

/* Whether another policy names the server's victims than when the advisor began. */
static bool
server_has_changed(void)
{
	bool		follows = policy_is_at_work();

	return follows != advice.follows || (follows && ebb_shared->made != made);
}

static void
begin(void)
{
	memset(&advice, 0, sizeof advice);
	/* What the server has counted until now is its state at the beginning. */
	count_server(&advice.server);
	memset(&advice.server, 0, sizeof advice.server);
	counted = 0;
	advice.one_of = one_of();
	advice.follows = policy_is_at_work();
	between = SHORTEST;
	due = 0;
	made = advice.follows ? ebb_shared->made : 0;
	victims = advice.follows ? ebb_shared->counters.victims : 0;
	advice.of_server = advice.follows ? pair_of_policy() : EBB_MINIATURE_OF_CLOCK;
	/* First, so that no page comes between this and the look at all buffers. */
	ebb_follow(EBB_ADVISOR, advice.follows && advice.of_server >= 0 ? advice.one_of : 0);
	ebb_miniatures_begin(advice.one_of);
	ebb_miniatures_costs(ebb_asymmetry);
	ebb_samples_begin(&advice);
	read_counters();
	at_reset = advice;
	at_reset.since = advice.until;
}

static void
publish_end(void)
{
	if (!shared)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->advice.works = false;
	LWLockRelease(shared->lock);
}

static void
end(void)
{
	ebb_follow(EBB_ADVISOR, 0);
	ebb_miniatures_end();
	publish_end();
}

/* Also after an error: what the last worker has published is not what this one, or none, does. */
static void
at_exit(int code, Datum argument)
{
	ebb_follow(EBB_ADVISOR, 0);
	publish_end();
}

/*
 * Takes the hits of sampled pages, if they are due: before the smallest miniature has replaced more than a part of its pages, and
 * so seldom that it takes a hundredth of the time.
 */
static double
follow_hits(void)
{
	double		now = ebb_clock_ms();
	double		before = cpu_ms();
	double		share;

	if (now < due)
		return 0;
	ebb_follow_hits(advice.one_of);
	share = ebb_follow_on(&advice);
	between = ebb_miniatures_turnover() > 0.25 ? Max(between / 2, SHORTEST) : Min(between * 1.5, LONGEST);
	due = now + Max(between, MOST_SHARE * (cpu_ms() - before));
	return share;
}

/* Reads what the policy saw, often enough that it finds room to write. Returns the milliseconds until the next time. */
static double
follow(double ms)
{
	double		share;

	if (advice.of_server < 0)
		return PUBLISH_EVERY;
	ebb_samples_checkpoint();
	share = ebb_follow_on(&advice);
	share = Max(share, follow_hits());
	advice.looks++;
	advice.hand = ebb_shared->counters.victims - victims;
	ms = share > 0.25 ? Max(ms / 2, SHORTEST) : Min(Max(ms, SHORTEST) * 1.5, LONGEST);
	return Min(ms, between);
}

static volatile sig_atomic_t rests = false;

/* While the advisor rests it ends without an error in the log; elsewhere, also while it waits for a lock, as other workers do. */
static void
stop(SIGNAL_ARGS)
{
	if (rests)
		SignalHandlerForShutdownRequest(postgres_signal_arg);
	else
		die(postgres_signal_arg);
}

/* For some milliseconds, or, while the advisor is off, until the latch is set. */
static void
rest(bool works, double ms)
{
	int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (works ? WL_TIMEOUT : 0);

	rests = true;
	WaitLatch(MyLatch, events, works ? (long) ms : -1, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	rests = false;
	/* As the server's own workers end; after an exit with 0 it would not be started again. */
	if (ShutdownRequestPending)
		proc_exit(1);
	CHECK_FOR_INTERRUPTS();
	if (!ConfigReloadPending)
		return;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	if (works)
		ebb_miniatures_costs(ebb_asymmetry);
}

void
ebbpool_advise_main(Datum argument)
{
	bool		works = false;
	double		ms = 0;
	double		published = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, stop);
	/* There is no statement to cancel. */
	pqsignal(SIGINT, SIG_IGN);
	if (!shared)
	{
		ereport(LOG, (errmsg("ebbpool: no advisor, since the server has loaded another file of the module than this worker"),
					  errhint("Name the file in shared_preload_libraries by a path of less than %d bytes, or as 'ebbpool'.",
							  (int) sizeof ((BackgroundWorker *) 0)->bgw_library_name)));
		/* Without an error it is not started again. */
		proc_exit(0);
	}
	before_shmem_exit(at_exit, (Datum) 0);
	BackgroundWorkerUnblockSignals();
	/* No database: it reads the list of them. */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	/* As autovacuum does: a standby has no serializable transactions, and a lock that waits is no error. */
	SetConfigOption("default_transaction_isolation", "read committed", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
	for (;;)
	{
		if (works && (!ebb_advise || server_has_changed()))
		{
			works = false;
			end();
		}
		if (!works && ebb_advise)
		{
			works = true;
			begin();
		}
		if (works)
			ms = advice.follows ? follow(ms) : ebb_samples_look(&advice);
		if (works && ebb_clock_ms() - published >= PUBLISH_EVERY)
		{
			publish();
			published = ebb_clock_ms();
		}
		rest(works, ms);
	}
}

/* ---- at the server's start ---- */

static void
request(void)
{
	if (previous_request)
		previous_request();
	RequestAddinShmemSpace(sizeof(EbbAdviseShared) + ebb_followed_size());
	RequestNamedLWLockTranche("ebbpool advice", 1);
}

static void
startup(void)
{
	bool		found;

	if (previous_startup)
		previous_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("ebbpool advice", sizeof(EbbAdviseShared), &found);
	if (!found)
	{
		memset(shared, 0, sizeof(*shared));
		shared->lock = &GetNamedLWLockTranche("ebbpool advice")->lock;
	}
	ebb_followed_startup();
	LWLockRelease(AddinShmemInitLock);
}

static void
register_worker(void)
{
	BackgroundWorker worker = {
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_ConsistentState,
		.bgw_restart_time = RESTART_AFTER,
		.bgw_name = "ebbpool advisor",
		.bgw_type = "ebbpool advisor",
		.bgw_library_name = "ebbpool",
		.bgw_function_name = "ebbpool_advise_main"
	};
	Dl_info		module;

	/* The file that is loaded: there may be another one where the server looks for "ebbpool". */
	if (dladdr(ebbpool_advise_main, &module) != 0 && strlen(module.dli_fname) < sizeof worker.bgw_library_name)
		strcpy(worker.bgw_library_name, module.dli_fname);
	RegisterBackgroundWorker(&worker);
}

/* From _PG_init, after the settings are defined. */
void
ebb_attach_advisor(void)
{
	previous_request = shmem_request_hook;
	shmem_request_hook = request;
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = startup;
	register_worker();
}
