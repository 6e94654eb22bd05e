/*
 * advise.h -- what the files of the advisor share; advise.c explains it.
 */
#ifndef EBBPOOL_ADVISE_H
#define EBBPOOL_ADVISE_H

#include "ebbpool_pg.h"

#include "common/hashfn.h"

/* Pairs of a policy and a size. */
#define EBB_MINIATURES 12
/* The pair that the server itself has while the clock sweep works: with all its buffers. */
#define EBB_MINIATURE_OF_CLOCK 2

/* The server's own counters. */
typedef struct EbbServerCounts
{
	uint64		allocated;		/* buffers that the clock sweep or the free list has given: pages that came, but for rings */
	uint64		rings;			/* pages that came through rings */
	uint64		writes;
	uint64		extended;		/* new pages among these, where the server counts them: from 16 on */
} EbbServerCounts;

typedef struct EbbMiniatureCounts
{
	uint32		frames;
	uint32		used;
	bool		failed;
	uint64		reads;
	uint64		writes;
} EbbMiniatureCounts;

/* What the advisor publishes. */
typedef struct EbbAdvice
{
	bool		works;
	bool		follows;		/* the policy of the module, which names victims */
	int			of_server;		/* the pair that the server itself has; -1 if none has its policy: then the advisor pauses */
	uint32		one_of;			/* one page of so many is a sample */
	double		asymmetry;
	TimestampTz since;
	TimestampTz until;
	EbbServerCounts server;		/* since then */
	EbbMiniatureCounts miniatures[EBB_MINIATURES];
	uint64		looks;			/* times that the descriptors were looked at */
	uint64		resident;		/* samples in the server's buffers, added up over the looks */
	uint64		hand;			/* buffers that the clock hand has passed, or that the policy has named */
	uint64		lost;			/* of these, buffers that it passed again before they were looked at; what the policy saw while the ring was full */
	uint64		samples;		/* reads of sampled pages */
	uint64		found;			/* of these, pages that had come otherwise than by hand or free list */
	uint64		hits;			/* sampled pages that were hit between two looks */
	uint64		guessed;		/* of these, hits that a saturated usage count hides */
	double		cpu_ms;
} EbbAdvice;

/* Name of a pair's policy, and its share of shared_buffers. */
typedef struct EbbPair
{
	const char *policy;
	uint32		numerator;
	uint32		denominator;
} EbbPair;

extern const EbbPair ebb_pairs[EBB_MINIATURES];

/* Whether a page is a sample: one of so many, a power of 2. */
static inline bool
ebb_is_sampled(uint64 number, uint32 one_of)
{
	return ((murmurhash32((uint32) number) * 31 + murmurhash32((uint32) (number >> 32) + 1)) >> 7 & (one_of - 1)) == 0;
}

/* Milliseconds of a clock that an administrator does not set. */
static inline double
ebb_clock_ms(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MILLISEC(now);
}

/* ---- settings of the advisor ---- */

extern bool ebb_advise;

/* ---- advise.c ---- */

extern void ebb_attach_advisor(void);
extern bool ebb_copy_advice(EbbAdvice *advice);
extern bool ebb_request_reset(void);

/* ---- samples.c: pages in descriptors ---- */

extern void ebb_samples_begin(EbbAdvice *advice);
extern double ebb_samples_look(EbbAdvice *advice);
extern void ebb_samples_checkpoint(void);

/* ---- follow.c: pages that the policy sees ---- */

typedef enum EbbFollower
{
	EBB_ADVISOR,
	EBB_CAPTURE,
	EBB_FOLLOWERS
} EbbFollower;

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
	BufferTag	tag;
	uint8		kind;
	uint8		hits;
	bool		write;
	bool		by_ring;
} EbbSeen;

/* Frames that are looked at under one lock. */
#define EBB_FRAMES_AT_ONCE 4096

extern Size ebb_followed_size(void);
extern void ebb_followed_startup(void);
extern void ebb_follow(EbbFollower who, uint32 one_of);
extern uint32 ebb_follow_alone(bool begins);
extern bool ebb_follow_next(EbbFollower who, EbbSeen *seen);
extern double ebb_follow_filled(EbbFollower who, uint64 *lost);
extern int	ebb_follow_some_hits(uint32 one_of, int first);
extern void ebb_follow_hits(uint32 one_of);
extern double ebb_follow_on(EbbAdvice *advice);

/* ---- miniatures.c ---- */

extern void ebb_miniatures_begin(uint32 one_of);
extern void ebb_miniatures_end(void);
extern void ebb_miniatures_costs(double asymmetry);
extern void ebb_miniatures_reference(uint64 number, uint32 hits, bool write);
extern void ebb_miniatures_wrote(uint64 number);
extern void ebb_miniatures_dropped(uint64 number);
extern void ebb_miniatures_checkpoint(void);
extern void ebb_miniatures_serve(void);
extern double ebb_miniatures_turnover(void);
extern void ebb_miniatures_counts(EbbMiniatureCounts *counts);

#endif							/* EBBPOOL_ADVISE_H */
