/*
 * miniatures.c -- small buffers that see the sampled pages only: policies of other kinds and for other sizes.
 *
 * Each has as many frames as the buffers that it stands for would have for the samples. They share one table of the pages
 * that any of them has. All is in the memory of the advisor's process.
 */
#include "advise.h"

#include "common/hashfn.h"
#include "utils/memutils.h"

/* "clock" is the server's clock sweep, and not the library's policy of this name. */
const EbbPair ebb_pairs[EBB_MINIATURES] = {
	{"clock", 1, 4}, {"clock", 1, 2}, {"clock", 1, 1}, {"clock", 2, 1}, {"clock", 4, 1},
	{"lru", 1, 1}, {"arc", 1, 1}, {"ccf-lru", 1, 1},
	{"ebb", 1, 2}, {"ebb", 1, 1}, {"ebb", 2, 1}, {"ebb", 4, 1}
};

/* Hits that are reported in one call. */
#define MOST_HITS 64
/* Events that wait for the miniatures. */
#define MOST_EVENTS 1024

typedef struct Record
{
	uint64		number;
	int			next;			/* in its chain, or in the list of records that are not used */
	int			residents;		/* miniatures that have it */
	uint32		dirty;			/* a bit for each of them */
	int			frame[EBB_MINIATURES];	/* -1: not there */
} Record;

typedef struct Miniature
{
	ebbpool_policy *policy;		/* NULL for the clock sweep */
	bool		failed;
	uint32		frames;
	uint32		used;
	uint32	   *empty;			/* stack of frames without a page */
	int		   *page;			/* by frame */
	uint8	   *usage;			/* by frame, for the clock sweep */
	uint32		hand;
	uint32		waiting;		/* hits that are not reported yet */
	uint64		more_hits;
	uint32		hit_frames[MOST_HITS];
	uint32		hit_accesses[MOST_HITS];
	uint64		reads;
	uint64		writes;
	uint64		reads_before;	/* at the last call of ebb_miniatures_turnover */
} Miniature;

enum
{
	EBB_REFERENCE,
	EBB_WROTE,
	EBB_DROPPED,
	EBB_CHECKPOINT
};

typedef struct Event
{
	int			page;			/* -1 for none */
	uint32		hits;
	int			kind;
	bool		write;
} Event;

static Event events[MOST_EVENTS];
static uint32 number_of_events;
static Miniature miniatures[EBB_MINIATURES];
static Record *pages;
static int	unused;
static int *chains;
static uint32 chain_mask;
static MemoryContext memory = NULL;

/* ---- the table ---- */

static inline int *
chain_of(uint64 number)
{
	return &chains[murmurhash32((uint32) number ^ (uint32) (number >> 32)) & chain_mask];
}

static int
find(uint64 number)
{
	int			at = *chain_of(number);

	while (at >= 0 && pages[at].number != number)
		at = pages[at].next;
	return at;
}

static int
insert(uint64 number)
{
	int		   *chain = chain_of(number);
	int			at = unused;
	Record	   *page = &pages[at];

	/* There is one for each frame, and one for each event that waits. */
	Assert(at >= 0);
	unused = page->next;
	page->number = number;
	page->next = *chain;
	page->residents = 0;
	page->dirty = 0;
	for (int i = 0; i < EBB_MINIATURES; i++)
		page->frame[i] = -1;
	*chain = at;
	return at;
}

static void
drop_if_nowhere(int at)
{
	int		   *link;

	if (pages[at].residents > 0)
		return;
	link = chain_of(pages[at].number);
	while (*link != at)
		link = &pages[*link].next;
	*link = pages[at].next;
	pages[at].next = unused;
	unused = at;
}

/* ---- one miniature ---- */

/* A policy that fails has no row any more; the others go on. */
static bool
succeeded(int i, ebbpool_status status)
{
	if (status == EBBPOOL_OK)
		return true;
	if (!miniatures[i].failed)
		ereport(WARNING,
				(errmsg("ebbpool: the advisor's policy \"%s\" of %u frames has failed", ebb_pairs[i].policy, miniatures[i].frames),
				 errdetail("%s.", ebbpool_error_message())));
	miniatures[i].failed = true;
	return false;
}

static void
report_hits(int i)
{
	Miniature  *it = &miniatures[i];

	if (it->waiting > 0)
		succeeded(i, ebbpool_policy_hits(it->policy, it->hit_frames, it->hit_accesses, it->waiting));
	if (it->more_hits > 0)
		succeeded(i, ebbpool_policy_hits_left_out(it->policy, it->more_hits));
	it->waiting = 0;
	it->more_hits = 0;
}

static void
hit(int i, Record *page, uint32 hits, bool write)
{
	Miniature  *it = &miniatures[i];

	if (write)
		page->dirty |= 1u << i;
	if (!it->policy)
	{
		uint8	   *usage = &it->usage[page->frame[i]];

		*usage = Min(*usage + hits, BM_MAX_USAGE_COUNT);
		return;
	}
	if (it->waiting == MOST_HITS)
		report_hits(i);
	it->hit_frames[it->waiting] = page->frame[i];
	it->hit_accesses[it->waiting++] = write ? EBBPOOL_WRITE : EBBPOOL_READ;
	it->more_hits += hits - 1;
}

/* The server's clock sweep, which finds no pin here. */
static uint32
sweep(Miniature *it)
{
	for (;;)
	{
		uint32		frame = it->hand;

		it->hand = (it->hand + 1) % it->frames;
		if (it->usage[frame] == 0)
			return frame;
		it->usage[frame]--;
	}
}

static bool
empty_frame(int i, uint32 frame, bool dropped)
{
	Miniature  *it = &miniatures[i];
	Record	   *page = &pages[it->page[frame]];

	if (!dropped && (page->dirty & (1u << i)))
		it->writes++;
	page->dirty &= ~(1u << i);
	page->frame[i] = -1;
	page->residents--;
	it->empty[it->frames - it->used--] = frame;
	if (!it->policy)
		return true;
	return succeeded(i, dropped ? ebbpool_policy_dropped(it->policy, frame) : ebbpool_policy_evicted(it->policy, frame));
}

/* Makes room, as far as the policy asks for it. */
static bool
evict_for(int i, uint64 number, bool write)
{
	Miniature  *it = &miniatures[i];
	uint32		frame;
	int			at;

	if (it->policy)
	{
		ebbpool_eviction plan;
		int32_t		evict_first;

		report_hits(i);
		if (it->failed || !succeeded(i, ebbpool_policy_miss(it->policy, number, (uint32) (number >> 32),
															 write ? EBBPOOL_WRITE : EBBPOOL_READ, &evict_first)))
			return false;
		if (!evict_first)
			return true;
		if (!succeeded(i, ebbpool_policy_victim(it->policy, NULL, NULL, 1, &plan)))
			return false;
		frame = plan.frame;
	}
	else if (it->used < it->frames)
		return true;
	else
		frame = sweep(it);
	at = it->page[frame];
	if (!empty_frame(i, frame, false))
		return false;
	drop_if_nowhere(at);
	return true;
}

static void
miss(int i, int at, uint32 hits, bool write)
{
	Miniature  *it = &miniatures[i];
	uint32		frame;

	it->reads++;
	if (!evict_for(i, pages[at].number, write))
		return;
	frame = it->empty[it->frames - ++it->used];
	it->page[frame] = at;
	pages[at].frame[i] = frame;
	pages[at].residents++;
	if (write)
		pages[at].dirty |= 1u << i;
	if (!it->policy)
		it->usage[frame] = Min(hits, BM_MAX_USAGE_COUNT);
	else if (succeeded(i, ebbpool_policy_admit(it->policy, frame)) && hits > 1)
		hit(i, &pages[at], hits - 1, false);
}

/* All that is dirty is written. */
static void
checkpoint(int i)
{
	Miniature  *it = &miniatures[i];

	if (it->policy)
		report_hits(i);
	for (uint32 frame = 0; frame < it->frames && !it->failed; frame++)
	{
		Record	   *page = it->page[frame] >= 0 ? &pages[it->page[frame]] : NULL;

		if (!page || page->frame[i] != (int) frame || !(page->dirty & (1u << i)))
			continue;
		page->dirty &= ~(1u << i);
		it->writes++;
		if (it->policy)
			succeeded(i, ebbpool_policy_cleaned(it->policy, frame));
	}
}

static void
wrote(int i, Record *page)
{
	page->dirty |= 1u << i;
	if (!miniatures[i].policy)
		return;
	report_hits(i);
	succeeded(i, ebbpool_policy_wrote(miniatures[i].policy, page->frame[i]));
}

static void
serve(int i, const Event *event)
{
	if (event->kind == EBB_CHECKPOINT)
		checkpoint(i);
	else if (pages[event->page].frame[i] < 0)
	{
		if (event->kind == EBB_REFERENCE)
			miss(i, event->page, event->hits, event->write);
	}
	else if (event->kind == EBB_REFERENCE)
		hit(i, &pages[event->page], event->hits, event->write);
	else if (event->kind == EBB_WROTE)
		wrote(i, &pages[event->page]);
	else
	{
		report_hits(i);
		empty_frame(i, pages[event->page].frame[i], true);
	}
}

/* ---- all ---- */

/* Serves the events that wait: one miniature after the other, so that the processor has it in its caches. */
void
ebb_miniatures_serve(void)
{
	for (int i = 0; i < EBB_MINIATURES; i++)
	{
		for (uint32 at = 0; at < number_of_events && !miniatures[i].failed; at++)
			serve(i, &events[at]);
		if (miniatures[i].policy && !miniatures[i].failed)
			report_hits(i);
	}
	for (uint32 at = 0; at < number_of_events; at++)
	{
		if (events[at].page < 0)
			continue;
		pages[events[at].page].residents--;
		drop_if_nowhere(events[at].page);
	}
	number_of_events = 0;
}

static void
put(int kind, int page, uint32 hits, bool write)
{
	/* Nothing that is evicted lets go of the record while the event waits. */
	if (page >= 0)
		pages[page].residents++;
	events[number_of_events++] = (Event) {page, hits, kind, write};
	if (number_of_events == MOST_EVENTS)
		ebb_miniatures_serve();
}

/* A page was referenced some times since the last look. */
void
ebb_miniatures_reference(uint64 number, uint32 hits, bool write)
{
	int			at = find(number);

	put(EBB_REFERENCE, at < 0 ? insert(number) : at, hits, write);
}

/* A page was written and not referenced, under a pin of before. */
void
ebb_miniatures_wrote(uint64 number)
{
	int			at = find(number);

	if (at >= 0)
		put(EBB_WROTE, at, 0, true);
}

/* A page exists no longer. */
void
ebb_miniatures_dropped(uint64 number)
{
	int			at = find(number);

	if (at >= 0)
		put(EBB_DROPPED, at, 0, false);
}

void
ebb_miniatures_checkpoint(void)
{
	put(EBB_CHECKPOINT, -1, 0, false);
}

void
ebb_miniatures_costs(double asymmetry)
{
	for (int i = 0; i < EBB_MINIATURES; i++)
		if (miniatures[i].policy && !miniatures[i].failed)
			succeeded(i, ebbpool_policy_costs(miniatures[i].policy, 1.0, asymmetry));
}

void
ebb_miniatures_counts(EbbMiniatureCounts *counts)
{
	for (int i = 0; i < EBB_MINIATURES; i++)
	{
		counts[i].frames = miniatures[i].frames;
		counts[i].used = miniatures[i].used;
		counts[i].failed = miniatures[i].failed;
		counts[i].reads = miniatures[i].reads;
		counts[i].writes = miniatures[i].writes;
	}
}

/* The part of its frames that a miniature has replaced since the last call; of the one where this is the largest. */
double
ebb_miniatures_turnover(void)
{
	double		largest = 0;

	for (int i = 0; i < EBB_MINIATURES; i++)
	{
		Miniature  *it = &miniatures[i];

		largest = Max(largest, (double) (it->reads - it->reads_before) / it->frames);
		it->reads_before = it->reads;
	}
	return largest;
}

static void
begin_one(int i, uint32 one_of)
{
	Miniature  *it = &miniatures[i];
	uint64		frames = (uint64) NBuffers * ebb_pairs[i].numerator / ebb_pairs[i].denominator / one_of;

	memset(it, 0, sizeof(*it));
	it->frames = Max(frames, 1);
	it->empty = palloc(it->frames * sizeof(*it->empty));
	it->page = palloc(it->frames * sizeof(*it->page));
	for (uint32 frame = 0; frame < it->frames; frame++)
	{
		it->empty[frame] = it->frames - 1 - frame;
		it->page[frame] = -1;
	}
	if (strcmp(ebb_pairs[i].policy, "clock") == 0)
		it->usage = palloc0(it->frames);
	else
		succeeded(i, ebbpool_policy_new(ebb_pairs[i].policy, it->frames, &it->policy));
}

/* Makes them, empty. */
void
ebb_miniatures_begin(uint32 one_of)
{
	MemoryContext before;
	uint64		records = MOST_EVENTS + 1;
	uint64		of_chains = 1024;

	ebb_miniatures_end();
	memory = AllocSetContextCreate(TopMemoryContext, "ebbpool miniatures", ALLOCSET_DEFAULT_SIZES);
	before = MemoryContextSwitchTo(memory);
	for (int i = 0; i < EBB_MINIATURES; i++)
	{
		begin_one(i, one_of);
		records += miniatures[i].frames;
	}
	while (of_chains < records)
		of_chains *= 2;
	pages = palloc_extended(records * sizeof(*pages), MCXT_ALLOC_HUGE);
	chains = palloc_extended(of_chains * sizeof(*chains), MCXT_ALLOC_HUGE);
	chain_mask = of_chains - 1;
	memset(chains, 0xff, of_chains * sizeof(*chains));
	for (uint64 at = 0; at < records; at++)
		pages[at].next = at + 1 < records ? (int) at + 1 : -1;
	unused = 0;
	MemoryContextSwitchTo(before);
}

void
ebb_miniatures_end(void)
{
	if (!memory)
		return;
	for (int i = 0; i < EBB_MINIATURES; i++)
		if (miniatures[i].policy)
			ebbpool_policy_destroy(miniatures[i].policy);
	memset(miniatures, 0, sizeof miniatures);
	number_of_events = 0;
	MemoryContextDelete(memory);
	memory = NULL;
}
