/*
 * queue.c -- the queue of victims that the policy has named in advance.
 *
 * The holder of the lock pushes; any process pops, without a lock (4). A victim is a hint (3): a mark of each frame says
 * whether it is queued, and a page that is hit in the queue is rescued.
 */
#include "ebbpool_pg.h"

uint64
ebb_queue_length(void)
{
	uint64		tail = pg_atomic_read_u64(&ebb_shared->queue_tail);
	uint64		head = pg_atomic_read_u64(&ebb_shared->queue_head);

	return tail > head ? tail - head : 0;
}

/* By default a 64th of the buffers: misses that find the lock taken are served from the queue, but old victims are worse. */
int
ebb_queue_target(void)
{
	int			target = ebb_queue;

	if (target == 0)
		target = Min(Max(ebb_shared->frames / 64, 32), 1024);
	/* Few frames: the queue would have all of them. */
	return Max(1, Min(target, ebb_shared->frames / 4));
}

/* Under the lock. */
void
ebb_queue_push(int buf_id)
{
	uint64		tail = pg_atomic_read_u64(&ebb_shared->queue_tail);

	Assert(LWLockHeldByMeInMode(ebb_shared->lock, LW_EXCLUSIVE));
	__atomic_store_n(&ebb_mark[buf_id], EBB_QUEUED, __ATOMIC_RELAXED);
	ebb_shared->queue[tail % EBB_QUEUE_SLOTS] = buf_id;
	pg_write_barrier();
	pg_atomic_write_u64(&ebb_shared->queue_tail, tail + 1);
}

/* The count of 1 that a ring has given a page makes it no victim of the server (16). */
void
ebb_uncount_ring(int buf_id)
{
	BufferDesc *buf = GetBufferDescriptor(buf_id);
	uint32		state = pg_atomic_read_u32(&buf->state);

	if (BUF_STATE_GET_USAGECOUNT(state) == 1 && !(state & BM_LOCKED))
		pg_atomic_compare_exchange_u32(&buf->state, &state, state - BUF_USAGECOUNT_ONE);
}

/* The next victim, or -1. */
int
ebb_queue_pop(void)
{
	for (;;)
	{
		uint64		head = pg_atomic_read_u64(&ebb_shared->queue_head);
		int			buf_id;

		if (head >= pg_atomic_read_u64(&ebb_shared->queue_tail))
			return -1;
		pg_read_barrier();
		buf_id = ebb_shared->queue[head % EBB_QUEUE_SLOTS];
		if (!pg_atomic_compare_exchange_u64(&ebb_shared->queue_head, &head, head + 1))
			continue;
		if (__atomic_exchange_n(&ebb_mark[buf_id], EBB_TAKEN, __ATOMIC_ACQ_REL) == EBB_QUEUED)
		{
			if (__atomic_load_n(&ebb_state[buf_id], __ATOMIC_RELAXED) & EBB_RING)
				ebb_uncount_ring(buf_id);
			return buf_id;
		}
		__atomic_store_n(&ebb_mark[buf_id], EBB_NOT_QUEUED, __ATOMIC_RELEASE);
		pg_atomic_fetch_add_u64(&ebb_shared->rescued, 1);
	}
}

/* The victim at a position, which it moves on, without taking it; -1 at the end. */
int
ebb_queue_peek(uint64 *position)
{
	*position = Max(*position, pg_atomic_read_u64(&ebb_shared->queue_head));
	if (*position >= pg_atomic_read_u64(&ebb_shared->queue_tail))
		return -1;
	pg_read_barrier();
	return ebb_shared->queue[(*position)++ % EBB_QUEUE_SLOTS];
}

/* The page was hit: if it is in the queue, it is no victim any more (3). */
void
ebb_rescue(int buf_id)
{
	uint8		expected = EBB_QUEUED;

	if (__atomic_load_n(&ebb_mark[buf_id], __ATOMIC_RELAXED) == EBB_QUEUED)
		__atomic_compare_exchange_n(&ebb_mark[buf_id], &expected, EBB_RESCUED, false, __ATOMIC_ACQ_REL,
									__ATOMIC_RELAXED);
}

/* The process that took it has replaced its page, or could not. False if none took it from the queue. */
bool
ebb_not_taken(int buf_id)
{
	uint8		expected = EBB_TAKEN;

	return __atomic_compare_exchange_n(&ebb_mark[buf_id], &expected, EBB_NOT_QUEUED, false, __ATOMIC_ACQ_REL,
									   __ATOMIC_RELAXED);
}
