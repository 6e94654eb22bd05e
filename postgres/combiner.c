/*
 * combiner.c -- the process that has the lock works for all: it reports events and hits to the policy, and fills the queue
 * of victims.
 */
#include "ebbpool_pg.h"

#include "miscadmin.h"

/* Events at which a process drains them although it needs no victim. */
#define EVENTS_TO_DRAIN 256

/* Whether the policy works. */
bool
ebb_works(void)
{
	return pg_atomic_read_u32(&ebb_shared->active) != 0;
}

/* This process has a failure to report when it has no lock: a client that reads slowly would make others wait. */
static bool failed_here = false;

/* The policy has failed: the clock sweep, until a new policy is set or the server starts again (11). Under the lock. */
void
ebb_give_up(const char *why)
{
	pg_atomic_write_u32(&ebb_shared->active, 0);
	pg_atomic_fetch_add_u64(&ebb_shared->failures, 1);
	strlcpy(ebb_shared->failure, why, sizeof ebb_shared->failure);
	failed_here = true;
}

void
ebb_report_failure(void)
{
	if (!failed_here)
		return;
	failed_here = false;
	ereport(WARNING,
			(errmsg("ebbpool: the policy \"%s\" has failed; the server uses its clock sweep", ebb_shared->policy_name),
			 errdetail("%s.", ebb_shared->failure),
			 errhint("Set ebbpool.policy to another policy and reload the configuration, or restart the server.")));
}

bool
ebb_succeeded(const char *call, ebbpool_status status)
{
	char		why[sizeof ebb_shared->failure];

	if (status == EBBPOOL_OK)
		return true;
	snprintf(why, sizeof why, "%.*s: %s", (int) strcspn(call, "("), call, ebbpool_error_message());
	ebb_give_up(why);
	return false;
}

/* Bytes of a policy for all frames; 0 if there is no such policy, and then the library has a text. */
Size
ebb_policy_size(const char *spec)
{
	size_t		bytes = 0;

	return ebbpool_policy_bytes(spec, NBuffers, &bytes) == EBBPOOL_OK ? bytes : 0;
}

/* Makes the policy in its region. Under the lock, or in the postmaster. */
void
ebb_make_policy(const char *spec)
{
	strlcpy(ebb_shared->policy_name, spec, sizeof ebb_shared->policy_name);
	ebb_shared->failure[0] = '\0';
	ebb_shared->asymmetry = -1;
	ebb_shared->made++;
	ebb_shared->resynced_at = PG_UINT64_MAX;
	memset(ebb_state, 0, ebb_shared->frames * sizeof(*ebb_state));
	if (ebb_succeeded("ebbpool_policy_new_in",
					  ebbpool_policy_new_in(spec, ebb_shared->frames, ebb_shared->region, ebb_shared->region_size,
											&ebb_shared->policy)))
		pg_atomic_write_u32(&ebb_shared->active, 1);
}

/* Takes over what the postmaster has published, unless it is just publishing. Under the lock. */
static void
take_over_settings(void)
{
	EbbPublished *published = &ebb_shared->published;
	uint32		version = pg_atomic_read_u32(&published->version);
	char		spec[EBB_MAX_SPEC];
	double		asymmetry;

	if (version == ebb_shared->version || version % 2 != 0)
		return;
	pg_read_barrier();
	memcpy(spec, published->policy, sizeof spec);
	asymmetry = published->asymmetry;
	pg_read_barrier();
	if (pg_atomic_read_u32(&published->version) != version)
		return;
	ebb_shared->version = version;
	if (strcmp(spec, ebb_shared->policy_name) != 0)
	{
		ebb_make_policy(spec);
		/* Nothing is in it yet. */
		pg_atomic_write_u32(&ebb_shared->events_lost, 1);
	}
	if (ebb_works() && asymmetry != ebb_shared->asymmetry)
	{
		EBB_CALL(ebbpool_policy_costs(ebb_shared->policy, 1.0, asymmetry));
		ebb_shared->asymmetry = asymmetry;
	}
}

/*
 * A victim may be in use when it is taken (3); here those are left out that cannot be taken now, and pages whose last write has
 * failed: they would be named again and again.
 */
static int32_t
may_evict(void *context, uint32_t buf_id)
{
	uint32		state = pg_atomic_read_u32(&GetBufferDescriptor(buf_id)->state);

	return BUF_STATE_GET_REFCOUNT(state) == 0 && BUF_STATE_GET_USAGECOUNT(state) == 0 &&
		(state & (BM_TAG_VALID | BM_IO_ERROR)) == BM_TAG_VALID && EBB_OWED_HITS(ebb_state[buf_id]) == 0 &&
		!(ebb_state[buf_id] & EBB_FRESH) &&
		__atomic_load_n(&ebb_mark[buf_id], __ATOMIC_RELAXED) == EBB_NOT_QUEUED;
}

/*
 * Has the policy name as many victims as the queue lacks. Free buffers need none, and a policy that has none to name looks at each
 * frame to see that: it is asked again only after as many misses as make this cheap.
 */
static void
fill_queue(void)
{
	static uint32 frames[EBB_QUEUE_SLOTS];
	int			missing = ebb_queue_target() - (int) ebb_queue_length();
	uint64		came = ebb_shared->counters.events + ebb_shared->overflows_seen;
	size_t		named = 0;
	ebbpool_status status;

	if (!ebb_works() || missing <= 0 || have_free_buffer() || came < ebb_shared->ask_again)
		return;
	status = ebbpool_policy_victims(ebb_shared->policy, may_evict, NULL, missing, frames, &named);
	if (status == EBBPOOL_ALL_FIXED || status == EBBPOOL_INVALID)
	{
		/* As when all pages were just used. */
		ebb_shared->counters.refused++;
		ebb_shared->pause = Min(Max(2 * ebb_shared->pause, 8), Max(ebb_shared->frames / 256, 8));
		ebb_shared->ask_again = came + ebb_shared->pause;
		return;
	}
	if (!ebb_succeeded("ebbpool_policy_victims", status))
		return;
	for (size_t i = 0; i < named; i++)
		ebb_queue_push(frames[i]);
	ebb_shared->counters.victims += named;
	ebb_shared->pause = 0;
}

static void
name_leader(void)
{
	ebb_shared->leader[0] = '\0';
	if (ebb_works())
		EBB_CALL(ebbpool_policy_leader(ebb_shared->policy, ebb_shared->leader, sizeof ebb_shared->leader));
}

/* Events before position `old` have waited long enough, however few came since then (6). Under the lock. */
void
ebb_combine(uint64 old)
{
	instr_time	start;
	instr_time	end;
	uint64		events;
	uint64		overflows;
	uint64		unreported = ebb_shared->counters.unreported;

	INSTR_TIME_SET_CURRENT(start);
	ebb_harvest_begin();
	take_over_settings();
	events = ebb_ring_drain(old);
	overflows = pg_atomic_read_u64(&ebb_shared->overflows);
	/* A stopped process may hold up the ring for long (5): the harvest finds the pages that come meanwhile (10). */
	if (pg_atomic_read_u32(&ebb_shared->events_lost) && ebb_works() && !ebb_ring_is_stuck())
	{
		/* Cleared before, so that what is lost meanwhile is compared next time. */
		pg_atomic_write_u32(&ebb_shared->events_lost, 0);
		pg_memory_barrier();
		ebb_resync();
		ebb_shared->resynced_at = pg_atomic_read_u64(&ebb_shared->ring_head);
	}
	events += overflows - ebb_shared->overflows_seen;
	ebb_shared->overflows_seen = overflows;
	unreported = ebb_shared->counters.unreported - unreported;
	ebb_harvest_frames(events > unreported ? Min((events - unreported) * ebb_harvest, ebb_shared->frames) : 0);
	fill_queue();
	name_leader();
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_ACCUM_DIFF(ebb_shared->counters.time, end, start);
	ebb_shared->counters.combines++;
}

/* Becomes the combiner, if no other process is. With `wait` it waits until it is. */
bool
ebb_try_combine(bool wait)
{
	if (wait)
	{
		pg_atomic_fetch_add_u64(&ebb_shared->waits, 1);
		LWLockAcquire(ebb_shared->lock, LW_EXCLUSIVE);
	}
	else if (!LWLockConditionalAcquire(ebb_shared->lock, LW_EXCLUSIVE))
		return false;
	ebb_combine(0);
	LWLockRelease(ebb_shared->lock);
	ebb_report_failure();
	return true;
}

/*
 * Pages that take free buffers, or buffers of rings, ask for no victim: the events are drained here. The caller has no lock.
 */
void
ebb_drain_long_ring(void)
{
	if (ebb_ring_length() > EVENTS_TO_DRAIN && ebb_works() && pg_atomic_read_u32(&ebb_shared->enabled))
		ebb_try_combine(false);
}

/* Whether a scan gets its buffers from the policy and not from its ring (15). */
bool
ebb_bypasses_ring(BufferAccessStrategyType type)
{
	return type == BAS_BULKREAD && ebb_bypass_rings && ebb_shared && ebb_works() &&
		pg_atomic_read_u32(&ebb_shared->enabled);
}

/* True if there is nothing to do for a policy that has failed, until another one is set. */
static bool
has_failed(void)
{
	return !ebb_works() && pg_atomic_read_u32(&ebb_shared->published.version) == ebb_shared->version;
}

/* The buffer to replace, or -1 for the clock sweep. */
int
ebb_victim(void)
{
	ebb_asked = true;
	if (!pg_atomic_read_u32(&ebb_shared->enabled))
		return -1;
	for (int attempt = 0; attempt < 4 && !has_failed(); attempt++)
	{
		uint64		length = ebb_queue_length();
		int			buf_id;

		/*
		 * The combiner may have lost its processor. Then the clock sweep serves the misses until it has it again: some
		 * worse victims cost less than processes that wait for each other. After a failure another policy was set, which
		 * must not wait for the victims of the one before, since nothing takes these.
		 */
		if ((length < (ebb_queue_target() + 1) / 2 || !ebb_works()) && !ebb_try_combine(length == 0 && ebb_wait) && length == 0)
			break;
		if (!ebb_works())
			break;
		buf_id = ebb_queue_pop();
		if (buf_id >= 0)
			return buf_id;
	}
	pg_atomic_fetch_add_u64(&ebb_shared->fallbacks, 1);
	return -1;
}
