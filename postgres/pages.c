/*
 * pages.c -- which page the policy has in which frame. All under the lock.
 */
#include "ebbpool_pg.h"

#include "common/hashfn.h"

/* The class of a page is its relation and fork (8); 0 stands for unknown. */
static inline uint32
class_of(const BufferTag *tag)
{
	uint32		class = hash_combine(murmurhash32(ebb_relation_of(tag)), murmurhash32(ebb_database_of(tag)));

	class = hash_combine(class, murmurhash32((uint32) ebb_fork_of(tag)));
	return class == 0 ? 1 : class;
}

/* The number of a page (8). */
uint64
ebb_number_of(const BufferTag *tag)
{
	return (uint64) class_of(tag) << 32 | tag->blockNum;
}

/*
 * Takes the hits of a page out of its descriptor, if the page is still there. They are read under the header's lock, so
 * that page and hits belong together.
 */
static bool
take_hits_of(int buf_id, const BufferTag *tag, bool of_ring, uint32 *usage, bool *written)
{
	BufferDesc *buf = GetBufferDescriptor(buf_id);
	uint32		state = LockBufHdr(buf);
	bool		same = (state & BM_TAG_VALID) && ebb_tags_equal(&buf->tag, tag);

	*usage = 0;
	*written = false;
	if (same)
	{
		uint32		count = state & BUF_USAGECOUNT_MASK;

		*usage = ebb_take_hits_locked(buf_id, &state, written);
		if (of_ring)
			state |= count;
	}
	UnlockBufHdr(buf, state);
	return same;
}

/* The page is no longer in the frame, if it was. */
void
ebb_page_gone(int buf_id, bool evicted)
{
	bool		of_ring = (ebb_state[buf_id] & EBB_RING) != 0;

	if (!(ebb_state[buf_id] & EBB_KNOWN))
		return;
	ebb_state[buf_id] = 0;
	if (evicted && of_ring)
		EBB_CALL(ebbpool_policy_dropped(ebb_shared->policy, buf_id));
	else if (evicted)
		EBB_CALL(ebbpool_policy_evicted(ebb_shared->policy, buf_id));
	else
	{
		ebb_shared->counters.dropped++;
		ebb_followed_dropped(buf_id);
		EBB_CALL(ebbpool_policy_dropped(ebb_shared->policy, buf_id));
	}
}

/* Replaces the page of a frame in the order that the policy expects (7). */
static void
replace(int buf_id, bool evicted, uint64 number, bool written)
{
	int32_t		evict_first;

	EBB_CALL(ebbpool_policy_miss(ebb_shared->policy, number, (uint32) (number >> 32), written ? EBBPOOL_WRITE : EBBPOOL_READ,
								 &evict_first));
	ebb_page_gone(buf_id, evicted);
	if (!ebb_works())
		return;
	EBB_CALL(ebbpool_policy_admit(ebb_shared->policy, buf_id));
	ebb_state[buf_id] = EBB_KNOWN | (written ? EBB_DIRTY : 0);
	ebb_page[buf_id] = number;
	/* By the free list or a ring: the victim in the queue was the page before. */
	ebb_rescue(buf_id);
}

/* The page that a ring has put there is hit, so the policy is to have it (16). */
void
ebb_report_page(int buf_id)
{
	replace(buf_id, true, ebb_page[buf_id], (ebb_state[buf_id] & EBB_DIRTY) != 0);
}

/* A ring has replaced its page again (16). */
static void
cycle(int buf_id, uint64 number, bool written)
{
	ebb_shared->counters.unreported++;
	ebb_page[buf_id] = number;
	ebb_state[buf_id] = (ebb_state[buf_id] & (EBB_KNOWN | EBB_DIRTY)) | EBB_UNREPORTED;
	ebb_rescue(buf_id);
	if (!written || (ebb_state[buf_id] & EBB_DIRTY))
		return;
	ebb_state[buf_id] |= EBB_DIRTY;
	EBB_CALL(ebbpool_policy_wrote(ebb_shared->policy, buf_id));
}

/* A page has come into a buffer, where another one was or none. */
void
ebb_page_came(int buf_id, bool had_page, const BufferTag *tag, bool of_ring, bool by_ring)
{
	uint64		number = ebb_number_of(tag);
	uint32		usage;
	bool		written;
	bool		there;
	bool		in_place;

	/* From 16 on a process may have taken several for one question. */
	if (ebb_not_taken(buf_id))
		by_ring = false;
	if ((ebb_state[buf_id] & EBB_KNOWN) && ebb_page[buf_id] == number)
	{
		/* From a comparison of frames. */
		ebb_state[buf_id] &= ~EBB_SUSPECT;
		return;
	}
	in_place = by_ring && (ebb_state[buf_id] & EBB_RING);
	of_ring |= in_place;
	there = take_hits_of(buf_id, tag, of_ring, &usage, &written);
	/* Without hooks: the buffer turned out to be in use, or the page is not there yet and the harvest will find it (10). */
	if (!there && ebb_shared->attach == EBB_REDIRECT && !of_ring)
	{
		if (by_ring)
			ebb_followed_read(number, tag, false, true);
		return;
	}
	/* A ring has few buffers: its page came, and may have left for another one by now. */
	if (in_place && usage < 2)
		cycle(buf_id, number, written);
	else
		replace(buf_id, had_page, number, written);
	if (!ebb_works())
		return;
	ebb_followed_read(number, tag, written, by_ring);
	if (of_ring)
	{
		/* Its hits are for the next look. */
		if (usage < 2)
			ebb_state[buf_id] |= EBB_RING | EBB_FRESH;
		return;
	}
	/* The admission itself has raised the usage count to 1 (6). */
	if (usage > 1)
	{
		ebb_shared->counters.hits++;
		ebb_followed_hit(buf_id, usage - 1, false);
		EBB_CALL(ebbpool_policy_hit(ebb_shared->policy, buf_id, EBBPOOL_READ));
		if (usage > 2)
		{
			ebb_shared->counters.more_hits += usage - 2;
			EBB_CALL(ebbpool_policy_hits_left_out(ebb_shared->policy, usage - 2));
		}
	}
}

/* Compares what the policy has in a frame with the descriptor. */
void
ebb_compare_frame(int buf_id, bool by_ring)
{
	BufferDesc *buf = GetBufferDescriptor(buf_id);
	uint32		state = LockBufHdr(buf);
	BufferTag	tag = buf->tag;

	UnlockBufHdr(buf, state);
	if (!(state & BM_TAG_VALID))
		ebb_page_gone(buf_id, false);
	else
		ebb_page_came(buf_id, true, &tag, false, by_ring);
}

/* Events were lost: compares all frames. Nothing says whether a page that came was read through a ring. */
void
ebb_resync(void)
{
	ebb_shared->counters.resyncs++;
	ebb_followed_compare(true);
	for (int buf_id = 0; buf_id < ebb_shared->frames && ebb_works(); buf_id++)
		ebb_compare_frame(buf_id, true);
	ebb_followed_compare(false);
}
