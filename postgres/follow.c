/*
 * follow.c -- what the policy sees, for the advisor (advise.c: of sampled pages) and for a capture (record.c: of all).
 *
 * While a policy of the module names victims, it takes the hits out of the descriptors, so others cannot. The holder of the
 * lock then writes what it sees into a ring of each follower: one process writes at a time, one reads. What comes while a ring is
 * full is lost, and counted.
 */
#include "advise.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/shmem.h"

static const int slots_of[EBB_FOLLOWERS] = {[EBB_ADVISOR] = 2048, [EBB_CAPTURE] = 65536};

typedef struct EbbFollowed
{
	pg_atomic_uint32 one_of;	/* one page of so many is a sample; 0 if the follower does not follow */
	pg_atomic_uint32 process;	/* a capture's; 0 if there is none */
	pg_atomic_uint64 written;	/* positions grow for ever */
	pg_atomic_uint64 read;
	pg_atomic_uint64 lost;
	Latch	   *latch;			/* of the advisor's process, or of one that has its place now */
	EbbSeen    *ring;
} EbbFollowed;

static EbbFollowed *followed = NULL;
static bool is_comparing = false;

Size
ebb_followed_size(void)
{
	Size		size = EBB_FOLLOWERS * sizeof(EbbFollowed);

	for (int i = 0; i < EBB_FOLLOWERS; i++)
		size += slots_of[i] * sizeof(EbbSeen);
	return size;
}

/* At the server's start, and again after a crash of a process. */
void
ebb_followed_startup(void)
{
	bool		found;
	EbbSeen    *slots;

	followed = ShmemInitStruct("ebbpool followed", ebb_followed_size(), &found);
	if (found)
		return;
	memset(followed, 0, ebb_followed_size());
	slots = (EbbSeen *) (followed + EBB_FOLLOWERS);
	for (int i = 0; i < EBB_FOLLOWERS; i++)
	{
		pg_atomic_init_u32(&followed[i].one_of, 0);
		pg_atomic_init_u32(&followed[i].process, 0);
		pg_atomic_init_u64(&followed[i].written, 0);
		pg_atomic_init_u64(&followed[i].read, 0);
		pg_atomic_init_u64(&followed[i].lost, 0);
		followed[i].ring = slots;
		slots += slots_of[i];
	}
}

/* ---- the holder of the lock ---- */

static void
put_into(EbbFollowed *it, int slots, const EbbSeen *seen)
{
	uint64		at = pg_atomic_read_u64(&it->written);
	uint64		read = pg_atomic_read_u64(&it->read);

	if (at - read >= slots)
	{
		pg_atomic_fetch_add_u64(&it->lost, 1);
		return;
	}
	it->ring[at % slots] = *seen;
	pg_write_barrier();
	pg_atomic_write_u64(&it->written, at + 1);
	/* It may rest for longer than the other half lasts. */
	if (at + 1 - read == slots / 2 && it->latch)
		SetLatch(it->latch);
}

/* What the policy sees of a page: its tag is the one given, or that of the frame if it is still there. */
static void
put(int buf_id, const BufferTag *tag, EbbSeen seen)
{
	for (int i = 0; followed && i < EBB_FOLLOWERS; i++)
	{
		uint32		one_of = pg_atomic_read_u32(&followed[i].one_of);

		/* To the advisor pages that come through rings are none. */
		if (one_of == 0 || !ebb_is_sampled(seen.number, one_of) || (i == EBB_ADVISOR ? seen.by_ring : is_comparing))
			continue;
		seen.tag = tag ? *tag : GetBufferDescriptor(buf_id)->tag;
		if (i == EBB_CAPTURE && !tag && ebb_number_of(&seen.tag) != seen.number)
			pg_atomic_fetch_add_u64(&followed[i].lost, 1);
		else
			put_into(&followed[i], slots_of[i], &seen);
	}
}

/* The page came into the buffers. */
void
ebb_followed_read(uint64 number, const BufferTag *tag, bool write, bool by_ring)
{
	put(-1, tag, (EbbSeen) {.number = number, .kind = EBB_SEEN_READ, .hits = 1, .write = write, .by_ring = by_ring});
}

/* Pages that came are not seen: a capture learns how many. */
void
ebb_followed_lost(void)
{
	if (followed && pg_atomic_read_u32(&followed[EBB_CAPTURE].one_of) != 0)
		pg_atomic_fetch_add_u64(&followed[EBB_CAPTURE].lost, 1);
}

/* While all frames are compared, the pages that are in them are shown as if they came: to a capture these are no requests. */
void
ebb_followed_compare(bool begins)
{
	is_comparing = begins;
}

void
ebb_followed_hit(int buf_id, uint32 hits, bool write)
{
	put(buf_id, NULL, (EbbSeen) {.number = ebb_page[buf_id], .kind = EBB_SEEN_HIT, .hits = hits, .write = write});
}

void
ebb_followed_wrote(int buf_id)
{
	put(buf_id, NULL, (EbbSeen) {.number = ebb_page[buf_id], .kind = EBB_SEEN_WRITE, .write = true});
}

/* A capture is not shown it: its trace has no pages that end. */
void
ebb_followed_dropped(int buf_id)
{
	EbbFollowed *it = followed ? &followed[EBB_ADVISOR] : NULL;
	uint32		one_of = it ? pg_atomic_read_u32(&it->one_of) : 0;
	EbbSeen		seen = {.number = ebb_page[buf_id], .kind = EBB_SEEN_DROP};

	if (one_of != 0 && ebb_is_sampled(seen.number, one_of))
		put_into(it, slots_of[EBB_ADVISOR], &seen);
}

/* ---- who follows ---- */

/* Has the holders of the lock write from now on, or no longer if `one_of` is 0. */
void
ebb_follow(EbbFollower who, uint32 one_of)
{
	EbbFollowed *it;

	if (!followed)
		return;
	it = &followed[who];
	pg_atomic_write_u32(&it->one_of, 0);
	pg_memory_barrier();
	/* What was written before belongs to what the follower has ended. */
	pg_atomic_write_u64(&it->read, pg_atomic_read_u64(&it->written));
	pg_atomic_write_u64(&it->lost, 0);
	it->latch = who == EBB_ADVISOR ? MyLatch : NULL;
	pg_memory_barrier();
	pg_atomic_write_u32(&it->one_of, one_of);
}

/* Makes this process the one that captures, or no longer. Returns the process that captures. */
uint32
ebb_follow_alone(bool begins)
{
	uint32		who = begins ? 0 : MyProcPid;

	(void) pg_atomic_compare_exchange_u32(&followed[EBB_CAPTURE].process, &who, begins ? MyProcPid : 0);
	return pg_atomic_read_u32(&followed[EBB_CAPTURE].process);
}

/* The next thing that was seen; false if there is none. */
bool
ebb_follow_next(EbbFollower who, EbbSeen *seen)
{
	EbbFollowed *it = &followed[who];
	uint64		at = pg_atomic_read_u64(&it->read);

	if (at == pg_atomic_read_u64(&it->written))
		return false;
	pg_read_barrier();
	*seen = it->ring[at % slots_of[who]];
	/* From here on the slot may be used again. */
	pg_memory_barrier();
	pg_atomic_write_u64(&it->read, at + 1);
	return true;
}

/* The share of the ring that waits, and what has found no room. */
double
ebb_follow_filled(EbbFollower who, uint64 *lost)
{
	EbbFollowed *it = &followed[who];

	*lost = pg_atomic_read_u64(&it->lost);
	return (double) (pg_atomic_read_u64(&it->written) - pg_atomic_read_u64(&it->read)) / slots_of[who];
}

/*
 * Writes the hits of sampled pages in some frames into the ring: a page's hits of the time between two calls are one, and fewer
 * buffers might have lost the page meanwhile. Returns the first frame behind these. In parts, so that no miss waits.
 */
int
ebb_follow_some_hits(uint32 one_of, int first)
{
	int			number = Min(EBB_FRAMES_AT_ONCE, NBuffers - first);

	LWLockAcquire(ebb_shared->lock, LW_EXCLUSIVE);
	ebb_harvest_begin();
	if (ebb_works())
		ebb_harvest_samples(one_of, first, number);
	LWLockRelease(ebb_shared->lock);
	return first + number;
}

/* The same in all frames. */
void
ebb_follow_hits(uint32 one_of)
{
	for (int first = 0; first < NBuffers;)
		first = ebb_follow_some_hits(one_of, first);
}

/* Gives the miniatures what was written. Returns the share of the ring that it took. */
double
ebb_follow_on(EbbAdvice *advice)
{
	double		filled = ebb_follow_filled(EBB_ADVISOR, &advice->lost);
	EbbSeen		seen;

	while (ebb_follow_next(EBB_ADVISOR, &seen))
	{
		switch (seen.kind)
		{
			case EBB_SEEN_READ:
			case EBB_SEEN_HIT:
				if (seen.kind == EBB_SEEN_READ)
					advice->samples++;
				else
					advice->hits++;
				ebb_miniatures_reference(seen.number, seen.hits, seen.write);
				break;
			case EBB_SEEN_WRITE:
				ebb_miniatures_wrote(seen.number);
				break;
			default:
				ebb_miniatures_dropped(seen.number);
		}
	}
	return filled;
}
