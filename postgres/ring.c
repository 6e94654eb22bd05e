/*
 * ring.c -- the ring of events: which page has come into which buffer.
 *
 * Any process puts events in, without a lock; the holder of the lock drains them (5).
 */
#include "ebbpool_pg.h"

/* This process needed a buffer of no ring for the page that comes next, and that buffer will be one of a ring. */
bool		ebb_asked = false;
bool		ebb_for_ring = false;

uint64
ebb_ring_length(void)
{
	/* In this order, since the head follows the tail. */
	uint64		head = pg_atomic_read_u64(&ebb_shared->ring_head);

	pg_read_barrier();
	return pg_atomic_read_u64(&ebb_shared->ring_tail) - head;
}

/* Remembers that not all events are there: the next combiner compares all frames (5). */
static void
lose_event(void)
{
	pg_atomic_write_u32(&ebb_shared->events_lost, 1);
}

static bool
reserve(uint64 *position)
{
	*position = pg_atomic_read_u64(&ebb_shared->ring_tail);
	for (;;)
	{
		/* Negative where others have put in and drained so many meanwhile that the position is old; the exchange fails then. */
		int64		used = (int64) (*position - pg_atomic_read_u64(&ebb_shared->ring_head));

		if (used >= EBB_RING_SLOTS)
			return false;
		if (pg_atomic_compare_exchange_u64(&ebb_shared->ring_tail, position, *position + 1))
			return true;
	}
}

void
ebb_ring_put(int buf_id, bool had_page, const BufferTag *new_tag)
{
	uint64		position;
	EbbEvent   *event;
	bool		of_ring = ebb_for_ring;
	bool		by_ring = had_page && !ebb_asked;

	ebb_asked = false;
	ebb_for_ring = false;
	if (!pg_atomic_read_u32(&ebb_shared->active))
	{
		pg_atomic_fetch_add_u64(&ebb_shared->unseen, 1);
		return;
	}
	if (!pg_atomic_read_u32(&ebb_shared->enabled))
	{
		/* The frames are compared when the policy is enabled again. */
		pg_atomic_fetch_add_u64(&ebb_shared->unseen, 1);
		ebb_followed_lost();
		if (!pg_atomic_read_u32(&ebb_shared->events_lost))
			lose_event();
		return;
	}
#ifdef EBB_LOSE_EVENTS
	/* For "postgres/check lost": some pages come into frames that were not in the queue, without an event (10). */
	static int	calls = 0;

	if (__atomic_load_n(&ebb_mark[buf_id], __ATOMIC_RELAXED) != EBB_TAKEN && ++calls % EBB_LOSE_EVENTS == 0)
		return;
#endif
	if (!reserve(&position))
	{
		pg_atomic_fetch_add_u64(&ebb_shared->overflows, 1);
		lose_event();
		return;
	}
	event = &ebb_shared->ring[position % EBB_RING_SLOTS];
	event->buf_id = buf_id;
	event->had_page = had_page;
	event->of_ring = of_ring;
	event->by_ring = by_ring;
	event->new_tag = *new_tag;
#ifdef EBB_STALL_EVENT
	/* For "postgres/check lost": as if its process were stopped for ever. */
	if (position == EBB_STALL_EVENT)
		return;
#endif
	pg_write_barrier();
	pg_atomic_write_u64(&event->published, position + 1);
}

/* True if one event that is not published holds up all others, and the frames were compared since then. Under the lock. */
bool
ebb_ring_is_stuck(void)
{
	return pg_atomic_read_u64(&ebb_shared->ring_head) == ebb_shared->resynced_at && ebb_ring_length() >= EBB_RING_SLOTS;
}

/*
 * Reports the events that have waited long enough to the policy (6), those before position `old` among them. Under the lock. Returns
 * their number.
 */
uint64
ebb_ring_drain(uint64 old)
{
	uint64		first = pg_atomic_read_u64(&ebb_shared->ring_head);
	uint64		at = first;
	/* An event that waits while the harvest looks at its frame twice is a page that no event has named (10). */
	uint64		lag = Min(ebb_lag, Max(ebb_shared->frames / ebb_harvest, 1) - 1);

	while (ebb_works())
	{
		EbbEvent   *event = &ebb_shared->ring[at % EBB_RING_SLOTS];

		if (at >= old && at + lag >= pg_atomic_read_u64(&ebb_shared->ring_tail))
			break;
		/* Its process has reserved the position, and not published the event yet. */
		if (pg_atomic_read_u64(&event->published) != at + 1)
			break;
		pg_read_barrier();
		ebb_page_came(event->buf_id, event->had_page, &event->new_tag, event->of_ring, event->by_ring);
		/* From here on the slot may be used again. */
		pg_memory_barrier();
		pg_atomic_write_u64(&ebb_shared->ring_head, ++at);
	}
	ebb_shared->counters.events += at - first;
	return at - first;
}
