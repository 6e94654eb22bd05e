/*
 * ebbpool_pg.h -- what the files of the module share.
 *
 * Numbers in parentheses are those of the invariants at the head of ebbpool.c.
 */
#ifndef EBBPOOL_PG_H
#define EBBPOOL_PG_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "portability/instr_time.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/lwlock.h"

#include "versions.h"

/* Of libebbpool. */
#include <ebbpool.h>

#ifdef EXEC_BACKEND
#error "the policy lies at the same address in all processes, which servers without fork() do not give (1)"
#endif

/* ---- what a server with the patch exports ---- */

/*
 * The module looks these up when it is loaded and not when it is linked, so that one module serves servers with and
 * without the patch. The types are those of the patch; buffer_hooks_version changes with them.
 */
#define EBB_HOOKS_VERSION 1
typedef int (*ebb_victim_hook) (void);
typedef void (*ebb_emptied_hook) (int buf_id);
typedef void (*ebb_replaced_hook) (int buf_id, const BufferTag *old_tag, const BufferTag *new_tag);
typedef bool (*ebb_clean_hook) (int *buf_id);
typedef bool (*ebb_ring_hook) (BufferAccessStrategyType type);

/* Victims that are tried before the clock sweep; the patch has the same number. */
#define EBB_VICTIM_TRIES 64

/* ---- settings (settings.c) ---- */

typedef enum EbbAttach
{
	EBB_HOOKS,
	EBB_REDIRECT,
	EBB_NONE
} EbbAttach;

#define EBB_MAX_SPEC 256

extern char *ebb_policy;
extern double ebb_asymmetry;
extern bool ebb_enabled;
extern int	ebb_attach;
extern int	ebb_harvest;
extern int	ebb_lag;
extern int	ebb_queue;
extern bool ebb_wait;
extern bool ebb_bypass_rings;

extern void ebb_define_settings(void);
extern void ebb_publish_settings(void);

/* ---- shared memory ---- */

#define EBB_QUEUE_SLOTS 4096
#define EBB_RING_SLOTS 8192

/* A page that has come into a buffer. */
typedef struct EbbEvent
{
	pg_atomic_uint64 published; /* position + 1 when the rest is valid (5) */
	int			buf_id;
	bool		had_page;
	bool		of_ring;		/* the buffer is one of a ring */
	bool		by_ring;		/* and was before, or may have been */
	BufferTag	new_tag;
} EbbEvent;

/* Settings that the postmaster publishes, so that all processes change them at the same time. */
typedef struct EbbPublished
{
	pg_atomic_uint32 version;	/* odd while the rest changes */
	double		asymmetry;
	char		policy[EBB_MAX_SPEC];
} EbbPublished;

/* Written under the lock. */
typedef struct EbbCounters
{
	uint64		combines;		/* times that a process has worked for all */
	instr_time	time;			/* their time */
	uint64		events;			/* pages that came */
	uint64		unreported;			/* of these, in a ring in place of another one (16) */
	uint64		harvested;		/* descriptors that were looked at */
	uint64		hits;			/* pages that had been hit */
	uint64		more_hits;		/* hits of these beyond the first */
	uint64		writes;			/* pages that had been written */
	uint64		cleaned;
	uint64		dropped;		/* pages that ceased to exist */
	uint64		found;			/* pages that no event had named */
	uint64		strays;			/* buffers without a page outside of the free list */
	uint64		victims;		/* named by the policy */
	uint64		refused;		/* times that it named none */
	uint64		resyncs;
} EbbCounters;

typedef struct EbbShared
{
	LWLock	   *lock;			/* of the policy, and of all that is said to be under it */
	int			frames;
	EbbAttach	attach;
	void	   *region;			/* of the policy */
	Size		region_size;
	pg_atomic_uint32 active;	/* the policy works (11) */
	pg_atomic_uint32 enabled;	/* ebbpool.enabled */
	EbbPublished published;

	/* Victims: positions grow for ever (4). */
	pg_atomic_uint64 queue_head pg_attribute_aligned(128);
	pg_atomic_uint64 queue_tail pg_attribute_aligned(128);

	/* Events (5). */
	pg_atomic_uint64 ring_tail pg_attribute_aligned(128);
	pg_atomic_uint64 ring_head; /* written under the lock */
	pg_atomic_uint32 events_lost;

	/* Under the lock. */
	ebbpool_policy *policy pg_attribute_aligned(128);
	uint32		version;		/* of the settings that the policy has */
	uint32		made;			/* policies, one after the other */
	uint64		ask_again;		/* not before this number of events */
	uint32		pause;			/* events to wait after the last refusal */
	int			hand;			/* the next descriptor to look at */
	uint64		overflows_seen;
	uint64		resynced_at;	/* the head of the ring of events, when all frames were compared last */
	EbbCounters counters;
	char		failure[256];
	char		policy_name[EBB_MAX_SPEC];
	char		leader[16];		/* of the policies that compete in this one; empty if none do */
	double		asymmetry;
	TimestampTz since;

	/* Not under the lock. */
	pg_atomic_uint64 fallbacks pg_attribute_aligned(128);
	pg_atomic_uint64 rescued;
	pg_atomic_uint64 waits;
	pg_atomic_uint64 overflows;
	pg_atomic_uint64 unseen;	/* pages that came while the policy was not at work */
	pg_atomic_uint64 failures;
	pg_atomic_uint64 cleaner_named;
	pg_atomic_uint64 redirected_gets;
	pg_atomic_uint64 redirected_victims;

	int			queue[EBB_QUEUE_SLOTS];
	EbbEvent	ring[EBB_RING_SLOTS];
} EbbShared;

/* Of a frame; under the lock. */
#define EBB_KNOWN 1				/* the policy has a page there */
#define EBB_DIRTY 2				/* and takes it for dirty */
#define EBB_SUSPECT 4			/* the last look found another page there, or a victim that was taken and stayed */
#define EBB_RING 8				/* its page came for a ring, and was not hit (16) */
#define EBB_UNREPORTED 16			/* and again: the policy has the page there that was the ring's first */
#define EBB_FRESH 32			/* since the last look */
#define EBB_OWED_WRITE 64		/* the advisor has seen a write that the policy is to learn of at the next harvest */
#define EBB_OWED_HIT 128		/* the same of hits: one, and so on up to BM_MAX_USAGE_COUNT */
#define EBB_OWED_HITS(state) ((uint32) (state) / EBB_OWED_HIT)

/* Of a frame, atomic (3). */
#define EBB_NOT_QUEUED 0
#define EBB_QUEUED 1
#define EBB_RESCUED 2			/* hit since then: no victim any more */
#define EBB_TAKEN 3				/* a process has it, to replace its page */

extern EbbShared *ebb_shared;
extern uint64 *ebb_page;		/* by frame: the page that is there, which the policy has unless it is EBB_UNREPORTED */
extern uint16 *ebb_state;		/* by frame */
extern uint8 *ebb_mark;			/* by frame: EBB_QUEUED and others */
extern uint8 *ebb_emptied;		/* by frame: its page has left, and no other has come; written by who has it pinned (7) */

/* The LSN of the page in a buffer. It may be torn, as nothing is locked. */
static inline XLogRecPtr
ebb_lsn_of(int buf_id)
{
	return PageGetLSN((Page) (BufferBlocks + (Size) buf_id * BLCKSZ));
}

/* ---- queue.c ---- */

extern uint64 ebb_queue_length(void);
extern int	ebb_queue_target(void);
extern void ebb_queue_push(int buf_id);
extern void ebb_uncount_ring(int buf_id);
extern int	ebb_queue_pop(void);
extern int	ebb_queue_peek(uint64 *position);
extern void ebb_rescue(int buf_id);
extern bool ebb_not_taken(int buf_id);

/* ---- ring.c ---- */

extern bool ebb_asked;
extern bool ebb_for_ring;

extern void ebb_ring_put(int buf_id, bool had_page, const BufferTag *new_tag);
extern uint64 ebb_ring_length(void);
extern bool ebb_ring_is_stuck(void);
extern uint64 ebb_ring_drain(uint64 old);

/* ---- pages.c ---- */

extern uint64 ebb_number_of(const BufferTag *tag);
extern void ebb_page_came(int buf_id, bool had_page, const BufferTag *tag, bool of_ring, bool by_ring);
extern void ebb_page_gone(int buf_id, bool evicted);
extern void ebb_report_page(int buf_id);
extern void ebb_compare_frame(int buf_id, bool by_ring);
extern void ebb_resync(void);

/* ---- harvest.c ---- */

extern void ebb_harvest_begin(void);
extern uint32 ebb_take_hits_locked(int buf_id, uint32 *state, bool *written);
extern void ebb_harvest_frames(int number);
extern void ebb_harvest_samples(uint32 one_of, int first, int number);

/* ---- follow.c: what the advisor and a capture are to see of it ---- */

extern void ebb_followed_read(uint64 number, const BufferTag *tag, bool write, bool by_ring);
extern void ebb_followed_lost(void);
extern void ebb_followed_compare(bool begins);
extern void ebb_followed_hit(int buf_id, uint32 hits, bool write);
extern void ebb_followed_wrote(int buf_id);
extern void ebb_followed_dropped(int buf_id);

/* ---- combiner.c ---- */

extern Size ebb_policy_size(const char *spec);
extern void ebb_make_policy(const char *spec);
extern bool ebb_works(void);
extern bool ebb_bypasses_ring(BufferAccessStrategyType type);
extern void ebb_drain_long_ring(void);
extern bool ebb_succeeded(const char *call, ebbpool_status status);
extern void ebb_give_up(const char *why);
extern void ebb_report_failure(void);
extern void ebb_combine(uint64 old);
extern bool ebb_try_combine(bool wait);
extern int	ebb_victim(void);

/* ---- views.c ---- */

extern void ebb_refuse_other_version(void);

/* ---- hooks.c and redirect.c ---- */

extern void ebb_attach_hooks(void);
extern void ebb_attach_redirect(void);

/* Calls a function of the policy; the function around it returns if the policy fails (11). */
#define EBB_CALL(call) do { if (!ebb_succeeded(#call, (call))) return; } while (0)

#endif							/* EBBPOOL_PG_H */
