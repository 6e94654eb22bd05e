/*
 * samples.c -- which sampled pages the server has read, hit and written, from the descriptors of its buffers.
 *
 * Nothing is changed there, and no lock taken. A page is a sample by the hash of its number, so that all its references are
 * seen or none. A look
 *
 *	1. reads the descriptors of the samples that are in the server's buffers. A usage count that is higher than what the
 *	   clock hand has left of the last one shows hits, a new LSN of the page or a new BM_DIRTY a write. A count that is
 *	   as high as it can be hides hits; then the page is taken to be hit as often as when it was lower.
 *	2. reads the descriptors that the hand had passed at the look before: pages that came are there by now. In this way each
 *	   miss costs a few descriptors, however many buffers there are. While the server takes buffers that were never used, it
 *	   follows these. Now and then it looks at another part, for pages that came otherwise.
 *
 * Looks are so frequent that the hand passes about a quarter of the buffers between two.
 */
#include "advise.h"

#include "access/xlog.h"
#include "utils/memutils.h"

/* Milliseconds between two looks. */
#define SHORTEST 10.0
#define LONGEST 200.0
/* A look at all of the buffers takes so many looks. */
#define PARTS 64
/* Descriptors that one look reads elsewhere. */
#define MOST_ELSEWHERE 512

typedef struct Sample
{
	uint64		number;
	uint64		hand;			/* where the hand was at the last look */
	XLogRecPtr	lsn;
	int			buf_id;
	uint8		usage;
	bool		dirty;
	/* Looks at which a hit would have shown, and hits that did; both are halved now and then. */
	uint16		looks;
	uint16		hits;
	float		owed;			/* part of a hit that is hidden */
} Sample;

static Sample *samples = NULL;
static int	number_of_samples;
static int	room;
static int *sample_of = NULL;	/* by buffer; -1: none */
static uint32 one_of;
static uint64 hand;				/* position of the hand, which only grows */
static uint64 before;			/* at the look before */
static uint64 seen;				/* descriptors before it were looked at */
static uint32 passes;
static int	front;				/* buffers before it were used at some time */
static int	elsewhere;
static double wait;
static XLogRecPtr redo;

/* How often the hand passes a buffer from one position to another. */
static inline uint32
passes_over(int buf_id, uint64 from, uint64 to)
{
	return (to + NBuffers - 1 - buf_id) / NBuffers - (from + NBuffers - 1 - buf_id) / NBuffers;
}

static void
read_hand(EbbAdvice *advice)
{
	uint32		now;
	int			at = StrategySyncStart(&now, NULL);
	uint64		position = hand - hand % NBuffers + (uint64) (uint32) (now - passes) * NBuffers + at;

	before = hand;
	/* Never back. */
	if (position >= hand)
	{
		advice->hand += position - hand;
		hand = position;
		passes = now;
	}
}

/* ---- samples that are there ---- */

static void
forget(int at)
{
	sample_of[samples[at].buf_id] = -1;
	samples[at] = samples[--number_of_samples];
	if (at < number_of_samples)
		sample_of[samples[at].buf_id] = at;
}

/*
 * Hits since the last look: seen, or guessed where the count hides them. Each pass of the hand has taken one off the count:
 * it had one to take, or the page would be gone.
 */
static uint32
hits_of(Sample *it, uint32 usage, bool pinned, EbbAdvice *advice)
{
	uint32		passed = passes_over(it->buf_id, it->hand, hand);
	uint32		hits = usage + passed - Min(it->usage, usage + passed);

	if (it->usage < BM_MAX_USAGE_COUNT || passed > 0)
	{
		it->looks++;
		it->hits += hits;
		if (it->looks >= 64)
		{
			it->looks /= 2;
			it->hits /= 2;
		}
		return hits;
	}
	it->owed += it->looks > 0 ? (float) it->hits / it->looks : 0;
	if (it->owed >= 1 || pinned)
	{
		hits = Max((uint32) it->owed, 1);
		it->owed -= Min(hits, it->owed);
		advice->guessed++;
	}
	return hits;
}

/* False if the sample is no longer there. */
static bool
look_at_sample(int at, EbbAdvice *advice)
{
	Sample	   *it = &samples[at];
	BufferDesc *buf = GetBufferDescriptor(it->buf_id);
	uint32		state = pg_atomic_read_u32(&buf->state);
	uint32		usage = BUF_STATE_GET_USAGECOUNT(state);
	XLogRecPtr	lsn = it->lsn;
	uint32		hits;
	bool		written;

	if (!(state & BM_TAG_VALID))
	{
		/* With a pin its page has left for another one (ebbpool.c, 7). */
		if (BUF_STATE_GET_REFCOUNT(state) == 0)
			ebb_miniatures_dropped(it->number);
		forget(at);
		return false;
	}
	if (ebb_number_of(&buf->tag) != it->number)
	{
		forget(at);
		return false;
	}
	if (state & BM_DIRTY)
		lsn = ebb_lsn_of(it->buf_id);
	written = (state & BM_DIRTY) && (!it->dirty || lsn != it->lsn);
	hits = hits_of(it, usage, BUF_STATE_GET_REFCOUNT(state) > 0, advice);
	if (hits > 0)
	{
		advice->hits++;
		ebb_miniatures_reference(it->number, hits, written);
	}
	else if (written)
		ebb_miniatures_wrote(it->number);
	it->usage = usage;
	it->hand = hand;
	it->dirty = (state & BM_DIRTY) != 0;
	it->lsn = lsn;
	return true;
}

/* Other processors have changed the descriptors and pages: the reads of several samples overlap. */
static inline void
fetch_ahead(int at)
{
	if (at + 8 < number_of_samples)
		__builtin_prefetch(GetBufferDescriptor(samples[at + 8].buf_id));
	if (at + 4 < number_of_samples && samples[at + 4].dirty)
		__builtin_prefetch(BufferBlocks + (Size) samples[at + 4].buf_id * BLCKSZ);
}

/* ---- samples that came ---- */

static void
remember(int buf_id, uint64 number, uint32 state)
{
	Sample	   *it;

	if (number_of_samples == room)
	{
		room *= 2;
		samples = repalloc_huge(samples, room * sizeof(*samples));
	}
	it = &samples[number_of_samples];
	memset(it, 0, sizeof(*it));
	it->number = number;
	it->hand = hand;
	it->buf_id = buf_id;
	it->usage = BUF_STATE_GET_USAGECOUNT(state);
	it->dirty = (state & BM_DIRTY) != 0;
	it->lsn = ebb_lsn_of(buf_id);
	sample_of[buf_id] = number_of_samples++;
}

/* False if the buffer has no page. */
static bool
look_at_buffer(int buf_id, EbbAdvice *advice, uint64 *found)
{
	BufferDesc *buf = GetBufferDescriptor(buf_id);
	uint32		state = pg_atomic_read_u32(&buf->state);
	int			at = sample_of[buf_id];
	uint64		number;

	if (!(state & BM_TAG_VALID))
		return false;
	number = ebb_number_of(&buf->tag);
	if (!ebb_is_sampled(number, one_of) || (at >= 0 && samples[at].number == number))
		return true;
	/* Its tag may just be changing. */
	pg_read_barrier();
	if (ebb_number_of(&buf->tag) != number)
		return true;
	if (at >= 0)
		forget(at);
	remember(buf_id, number, state);
	advice->samples++;
	if (found)
		(*found)++;
	/* The miss itself gives a usage count of 1; a page of a ring may have none. */
	ebb_miniatures_reference(number, Max(BUF_STATE_GET_USAGECOUNT(state), 1), (state & BM_DIRTY) != 0);
	return true;
}

static void
look_at_buffers(EbbAdvice *advice)
{
	int			part = Min(Max(NBuffers / PARTS, 1), MOST_ELSEWHERE);

	if (before - seen > NBuffers)
	{
		advice->lost += before - seen - NBuffers;
		seen = before - NBuffers;
	}
	for (; seen < before; seen++)
		look_at_buffer(seen % NBuffers, advice, NULL);
	while (front < NBuffers && look_at_buffer(front, advice, NULL))
		front++;
	for (int i = 0; i < part; i++)
	{
		look_at_buffer(elsewhere, advice, &advice->found);
		elsewhere = (elsewhere + 1) % NBuffers;
	}
}

/* ---- looks ---- */

/* If a checkpoint has begun since the last look, it writes what is dirty. */
void
ebb_samples_checkpoint(void)
{
	XLogRecPtr	now = GetRedoRecPtr();

	if (now != redo)
		ebb_miniatures_checkpoint();
	redo = now;
}

/* Looks at the descriptors. Returns the milliseconds until the next look. */
double
ebb_samples_look(EbbAdvice *advice)
{
	read_hand(advice);
	for (int at = 0; at < number_of_samples;)
	{
		fetch_ahead(at);
		if (look_at_sample(at, advice))
			at++;
	}
	look_at_buffers(advice);
	ebb_samples_checkpoint();
	advice->looks++;
	advice->resident += number_of_samples;
	if (hand - before > NBuffers / 3)
		wait = Max(wait * (NBuffers / 4) / (hand - before), SHORTEST);
	else if (hand - before < NBuffers / 5)
		wait = Min(wait * 1.5, LONGEST);
	return wait;
}

/* Starts with what is in the buffers now. */
void
ebb_samples_begin(EbbAdvice *advice)
{
	Assert((advice->one_of & (advice->one_of - 1)) == 0);
	one_of = advice->one_of;
	room = Max(NBuffers / advice->one_of * 2, 64);
	if (samples)
		pfree(samples);
	if (sample_of)
		pfree(sample_of);
	samples = MemoryContextAllocHuge(TopMemoryContext, room * sizeof(*samples));
	sample_of = MemoryContextAllocHuge(TopMemoryContext, NBuffers * sizeof(*sample_of));
	number_of_samples = 0;
	memset(sample_of, 0xff, NBuffers * sizeof(*sample_of));
	hand = StrategySyncStart(&passes, NULL);
	before = seen = hand;
	elsewhere = 0;
	wait = SHORTEST;
	redo = GetRedoRecPtr();
	for (front = 0; front < NBuffers && look_at_buffer(front, advice, NULL);)
		front++;
	for (int buf_id = front; buf_id < NBuffers; buf_id++)
		look_at_buffer(buf_id, advice, NULL);
	ebb_miniatures_serve();
}
