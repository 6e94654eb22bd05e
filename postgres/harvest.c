/*
 * harvest.c -- hits and writes, read from the descriptors of the buffers (1, 2). All under the lock.
 */
#include "advise.h"

#include "access/xlog.h"

/* Hits that are reported in one call. */
#define MOST_HITS 256

static uint32 hit_frames[MOST_HITS];
static uint32 hit_accesses[MOST_HITS];
static uint64 more_hits;
static int	hits;
/* Where the redo of a crash would begin; 0 if changes of hint bits are not logged. */
static XLogRecPtr redo;

/* To be called before descriptors are looked at. */
void
ebb_harvest_begin(void)
{
	redo = XLogHintBitIsNeeded() ? GetRedoRecPtr() : 0;
}

/*
 * True if the page has a write that the policy has not seen. The bit is not cleared where the server would then log the whole
 * page at the next change of a hint bit, and at each after that (2): such a page is one write until it is clean.
 */
static inline bool
take_write(int buf_id, uint32 *state)
{
	if (!(*state & BM_JUST_DIRTIED) || !(*state & BM_DIRTY) || (*state & BM_IO_IN_PROGRESS))
		return false;
	if (redo != 0 && (*state & BM_PERMANENT) && ebb_lsn_of(buf_id) <= redo)
		return !(ebb_state[buf_id] & (EBB_DIRTY | EBB_OWED_WRITE));
	*state &= ~BM_JUST_DIRTIED;
	return true;
}

/* Takes usage count and write out of the state of a descriptor whose header the caller has locked. */
uint32
ebb_take_hits_locked(int buf_id, uint32 *state, bool *written)
{
	uint32		usage = BUF_STATE_GET_USAGECOUNT(*state);

	*written = take_write(buf_id, state);
	*state &= ~BUF_USAGECOUNT_MASK;
	return usage;
}

/* The same without the lock of the header. False if another process has it: it would overwrite the change. */
static inline bool
take_hits(int buf_id, uint32 *state, uint32 *usage, bool *written)
{
	BufferDesc *buf = GetBufferDescriptor(buf_id);
	uint32		old = pg_atomic_read_u32(&buf->state);

	for (;;)
	{
		uint32		new = old & ~BUF_USAGECOUNT_MASK;

		if (old & BM_LOCKED)
			return false;
		*written = take_write(buf_id, &new);
		*usage = BUF_STATE_GET_USAGECOUNT(old);
		*state = old;
		if (new == old || pg_atomic_compare_exchange_u32(&buf->state, &old, new))
			return true;
	}
}

/*
 * A buffer without a page that is not on the free list, since a process took it from there and then found that another one
 * had read the page: only the clock hand would find it again, and it stands still (9). If that process had it from the
 * queue, it is still marked as taken; after two looks it is not.
 */
static void
queue_stray(int buf_id, uint32 state)
{
	BufferDesc *buf = GetBufferDescriptor(buf_id);
	uint8		mark = __atomic_load_n(&ebb_mark[buf_id], __ATOMIC_RELAXED);

	if (BUF_STATE_GET_REFCOUNT(state) != 0 || BUF_STATE_GET_USAGECOUNT(state) != 0 || (state & (BM_LOCKED | BM_TAG_VALID)) ||
		buf->freeNext != FREENEXT_NOT_IN_LIST)
		return;
	if (mark == EBB_TAKEN)
	{
		if (ebb_state[buf_id] & EBB_SUSPECT)
			ebb_not_taken(buf_id);
		ebb_state[buf_id] ^= EBB_SUSPECT;
	}
	else if (mark == EBB_NOT_QUEUED && ebb_queue_length() < EBB_QUEUE_SLOTS - 1)
	{
		ebb_shared->counters.strays++;
		ebb_queue_push(buf_id);
	}
}

/*
 * True if nothing is to be done for the page of a ring: its process has hit it at most, which never makes the count more than 1,
 * or others have (16). Then the page is the policy's, and its count stays until the next look, so that the ring lets go of it.
 * What a ring has read and left behind leaves before the pages that the policy would name; what it has written may be of use.
 */
static bool
is_of_ring(int buf_id, uint32 state)
{
	bool		is_fresh = (ebb_state[buf_id] & EBB_FRESH) != 0;

	if (!(ebb_state[buf_id] & EBB_RING) || !(state & BM_TAG_VALID))
		return false;
	ebb_state[buf_id] &= ~EBB_FRESH;
	if (BUF_STATE_GET_USAGECOUNT(state) > 1)
	{
		if (ebb_state[buf_id] & EBB_UNREPORTED)
			ebb_report_page(buf_id);
		else
			ebb_state[buf_id] &= ~EBB_RING;
	}
	else if (!is_fresh && (state & BM_DIRTY))
	{
		ebb_state[buf_id] &= ~EBB_RING;
		ebb_uncount_ring(buf_id);
		return false;
	}
	else if (!is_fresh && BUF_STATE_GET_REFCOUNT(state) == 0 && ebb_queue_length() < EBB_QUEUE_SLOTS - 1 &&
			 __atomic_load_n(&ebb_mark[buf_id], __ATOMIC_RELAXED) == EBB_NOT_QUEUED)
		ebb_queue_push(buf_id);
	return true;
}

/*
 * True if the frame may have another page than the policy has there. The event of a new page may be under way; if the next
 * look finds the same, there was none, and the frame is compared (10).
 */
static bool
is_other_page(int buf_id, uint32 state)
{
	BufferDesc *buf = GetBufferDescriptor(buf_id);
	bool		known = (ebb_state[buf_id] & EBB_KNOWN) != 0;

	if (!(state & BM_TAG_VALID))
		return false;
	if (known && ebb_page[buf_id] == ebb_number_of(&buf->tag) &&
		__atomic_load_n(&ebb_mark[buf_id], __ATOMIC_RELAXED) != EBB_TAKEN)
	{
		ebb_state[buf_id] &= ~EBB_SUSPECT;
		return false;
	}
	if (ebb_state[buf_id] & EBB_SUSPECT)
	{
		uint64		before = ebb_page[buf_id];
		bool		taken = ebb_not_taken(buf_id);

		ebb_state[buf_id] &= ~EBB_SUSPECT;
		ebb_compare_frame(buf_id, !taken);
		if (!known || ebb_page[buf_id] != before)
			ebb_shared->counters.found++;
	}
	else
		ebb_state[buf_id] |= EBB_SUSPECT;
	return true;
}

/* Reports the hits that have been collected. */
static void
report_hits(void)
{
	int			number = hits;
	uint64		more = more_hits;

	hits = 0;
	more_hits = 0;
	if (number > 0)
		EBB_CALL(ebbpool_policy_hits(ebb_shared->policy, hit_frames, hit_accesses, number));
	if (more > 0)
		EBB_CALL(ebbpool_policy_hits_left_out(ebb_shared->policy, more));
	ebb_shared->counters.hits += number;
	ebb_shared->counters.more_hits += more;
}

static void
collect_hit(int buf_id, uint32 usage, bool written)
{
	if (hits == MOST_HITS)
		report_hits();
	hit_frames[hits] = buf_id;
	hit_accesses[hits++] = written ? EBBPOOL_WRITE : EBBPOOL_READ;
	more_hits += usage - 1;
	ebb_rescue(buf_id);
}

/* What has become of the page's dirty bit since the last look. */
static void
note_writes(int buf_id, uint32 state, uint32 usage, bool written)
{
	if (written)
	{
		ebb_shared->counters.writes++;
		ebb_state[buf_id] |= EBB_DIRTY;
		/* Under a pin that was counted before: a write that is no reference. */
		if (usage == 0)
		{
			ebb_rescue(buf_id);
			EBB_CALL(ebbpool_policy_wrote(ebb_shared->policy, buf_id));
		}
	}
	else if ((ebb_state[buf_id] & EBB_DIRTY) && !(state & BM_DIRTY))
	{
		ebb_state[buf_id] &= ~EBB_DIRTY;
		ebb_shared->counters.cleaned++;
		EBB_CALL(ebbpool_policy_cleaned(ebb_shared->policy, buf_id));
	}
}

static inline void
show_followers(int buf_id, uint32 usage, bool written)
{
	if (usage > 0)
		ebb_followed_hit(buf_id, usage, written);
	else if (written)
		ebb_followed_wrote(buf_id);
}

static void
harvest_frame(int buf_id)
{
	uint32		state = pg_atomic_read_u32(&GetBufferDescriptor(buf_id)->state);
	uint32		usage;
	bool		written;

	if (is_other_page(buf_id, state))
		return;
	if (!(ebb_state[buf_id] & EBB_KNOWN))
	{
		queue_stray(buf_id, state);
		return;
	}
	if (is_of_ring(buf_id, state) || !take_hits(buf_id, &state, &usage, &written))
		return;
	if (!(state & BM_TAG_VALID))
	{
		/* With a pin: a process is about to put another page there (7). */
		if (BUF_STATE_GET_REFCOUNT(state) == 0)
			ebb_page_gone(buf_id, false);
		return;
	}
	show_followers(buf_id, usage, written);
	/* As the descriptor would have them: it counts no more hits, and has no write of a page that is clean again. */
	usage = Min(usage + EBB_OWED_HITS(ebb_state[buf_id]), BM_MAX_USAGE_COUNT);
	written |= (ebb_state[buf_id] & EBB_OWED_WRITE) && (state & BM_DIRTY);
	ebb_state[buf_id] &= EBB_OWED_WRITE - 1;
	if (usage > 0 && (ebb_state[buf_id] & EBB_UNREPORTED))
	{
		ebb_report_page(buf_id);
		if (!ebb_works())
			return;
	}
	if (usage > 0)
		collect_hit(buf_id, usage, written);
	note_writes(buf_id, state, usage, written);
}

/* Looks at the next descriptors. */
void
ebb_harvest_frames(int number)
{
	number = Min(number, ebb_shared->frames);
	for (int i = 0; i < number && ebb_works(); i++)
	{
		harvest_frame(ebb_shared->hand);
		if (++ebb_shared->hand == ebb_shared->frames)
			ebb_shared->hand = 0;
	}
	if (ebb_works())
		report_hits();
	hits = 0;
	more_hits = 0;
	ebb_shared->counters.harvested += number;
}

/*
 * The advisor needs the hits of its pages more often, to tell what fewer buffers would have read. They are taken out of the
 * descriptors here, and the policy learns of them when it would have: it does not depend on whether the advisor works.
 */
static void
harvest_sample(int buf_id)
{
	BufferDesc *buf = GetBufferDescriptor(buf_id);
	uint32		state;
	uint32		usage;
	bool		written;

	/* Anything else than hits is for the harvest. */
	if (ebb_page[buf_id] != ebb_number_of(&buf->tag) || (ebb_state[buf_id] & EBB_RING) ||
		__atomic_load_n(&ebb_mark[buf_id], __ATOMIC_RELAXED) == EBB_TAKEN ||
		!(pg_atomic_read_u32(&buf->state) & BM_TAG_VALID) || !take_hits(buf_id, &state, &usage, &written))
		return;
	if (usage > 0 || written)
		ebb_rescue(buf_id);
	show_followers(buf_id, usage, written);
	usage = Min(usage + EBB_OWED_HITS(ebb_state[buf_id]), BM_MAX_USAGE_COUNT);
	ebb_state[buf_id] = (ebb_state[buf_id] & (EBB_OWED_HIT - 1)) | usage * EBB_OWED_HIT | (written ? EBB_OWED_WRITE : 0);
}

/* Looks at the sampled pages in some frames. */
void
ebb_harvest_samples(uint32 one_of, int first, int number)
{
	for (int buf_id = first; buf_id < first + number; buf_id++)
		if ((ebb_state[buf_id] & EBB_KNOWN) && ebb_is_sampled(ebb_page[buf_id], one_of))
			harvest_sample(buf_id);
}
