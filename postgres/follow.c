/*
 * follow.c -- what the policy sees of sampled pages, for the advisor (advise.c).
 *
 * While a policy of the module names victims, it takes the hits out of the descriptors, so the advisor cannot. The holder of the
 * lock then writes those of sampled pages into a ring, from which the advisor reads: one process writes at a time, one
 * reads. What comes while the ring is full is lost, and counted.
 */
#include "advise.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/shmem.h"

#define SLOTS 2048
/* Frames that are looked at under one lock. */
#define FRAMES_AT_ONCE 4096

typedef enum EbbSeenKind
{
	EBB_SEEN_READ,
	EBB_SEEN_HIT,
	EBB_SEEN_WRITE,
	EBB_SEEN_DROP
} EbbSeenKind;

typedef struct EbbSeen
{
	uint64		number;
	uint8		kind;
	uint8		hits;
	bool		write;
} EbbSeen;

typedef struct EbbFollowed
{
	pg_atomic_uint32 one_of;	/* one page of so many is a sample; 0 if the advisor does not follow */
	pg_atomic_uint64 written;	/* positions grow for ever */
	pg_atomic_uint64 read;
	pg_atomic_uint64 lost;
	Latch	   *latch;			/* of the advisor's process, or of one that has its place now */
	EbbSeen		ring[SLOTS];
} EbbFollowed;

static EbbFollowed *followed = NULL;

Size
ebb_followed_size(void)
{
	return sizeof(EbbFollowed);
}

/* At the server's start, and again after a crash of a process. */
void
ebb_followed_startup(void)
{
	bool		found;

	followed = ShmemInitStruct("ebbpool followed", sizeof(EbbFollowed), &found);
	if (found)
		return;
	memset(followed, 0, sizeof(*followed));
	pg_atomic_init_u32(&followed->one_of, 0);
	pg_atomic_init_u64(&followed->written, 0);
	pg_atomic_init_u64(&followed->read, 0);
	pg_atomic_init_u64(&followed->lost, 0);
}

/* ---- the holder of the lock ---- */

static inline void
put(uint64 number, EbbSeenKind kind, uint32 hits, bool write)
{
	uint32		one_of = followed ? pg_atomic_read_u32(&followed->one_of) : 0;
	uint64		at;
	uint64		read;

	if (one_of == 0 || !ebb_is_sampled(number, one_of))
		return;
	at = pg_atomic_read_u64(&followed->written);
	read = pg_atomic_read_u64(&followed->read);
	if (at - read >= SLOTS)
	{
		pg_atomic_fetch_add_u64(&followed->lost, 1);
		return;
	}
	followed->ring[at % SLOTS] = (EbbSeen) {.number = number, .kind = kind, .hits = hits, .write = write};
	pg_write_barrier();
	pg_atomic_write_u64(&followed->written, at + 1);
	/* It may rest for longer than the other half lasts. */
	if (at + 1 - read == SLOTS / 2)
		SetLatch(followed->latch);
}

/* The page came into the buffers. */
void
ebb_followed_read(uint64 number, bool write)
{
	put(number, EBB_SEEN_READ, 1, write);
}

void
ebb_followed_hit(uint64 number, uint32 hits, bool write)
{
	put(number, EBB_SEEN_HIT, hits, write);
}

void
ebb_followed_wrote(uint64 number)
{
	put(number, EBB_SEEN_WRITE, 0, true);
}

void
ebb_followed_dropped(uint64 number)
{
	put(number, EBB_SEEN_DROP, 0, false);
}

/* ---- the advisor ---- */

/* Has the holders of the lock write from now on, or no longer if `one_of` is 0. */
void
ebb_follow(uint32 one_of)
{
	if (!followed)
		return;
	pg_atomic_write_u32(&followed->one_of, 0);
	pg_memory_barrier();
	/* What was written before belongs to what the advisor has ended. */
	pg_atomic_write_u64(&followed->read, pg_atomic_read_u64(&followed->written));
	pg_atomic_write_u64(&followed->lost, 0);
	followed->latch = MyLatch;
	pg_memory_barrier();
	pg_atomic_write_u32(&followed->one_of, one_of);
}

/*
 * Writes the hits of sampled pages into the ring: a page's hits of the time between two calls are one, and fewer buffers
 * might have lost the page meanwhile. In parts, so that no miss waits.
 */
void
ebb_follow_hits(uint32 one_of)
{
	for (int first = 0; first < NBuffers; first += FRAMES_AT_ONCE)
	{
		LWLockAcquire(ebb_shared->lock, LW_EXCLUSIVE);
		ebb_harvest_begin();
		if (ebb_works())
			ebb_harvest_samples(one_of, first, Min(FRAMES_AT_ONCE, NBuffers - first));
		LWLockRelease(ebb_shared->lock);
	}
}

/* Gives the miniatures what was written. Returns the share of the ring that it took. */
double
ebb_follow_on(EbbAdvice *advice)
{
	uint64		first = pg_atomic_read_u64(&followed->read);
	uint64		end = pg_atomic_read_u64(&followed->written);

	pg_read_barrier();
	for (uint64 at = first; at < end; at++)
	{
		EbbSeen		seen = followed->ring[at % SLOTS];

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
	/* From here on the slots may be used again. */
	pg_memory_barrier();
	pg_atomic_write_u64(&followed->read, end);
	advice->lost = pg_atomic_read_u64(&followed->lost);
	return (double) (end - first) / SLOTS;
}
