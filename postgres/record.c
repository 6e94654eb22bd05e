/*
 * record.c -- the function behind `ebbpool capture postgres --module`: what the policy sees of all pages, without a trap.
 *
 * A session calls it again and again. The first call begins; what the policy saw since the last one is in the next, until the
 * session ends. The buffers' pages of the beginning come first, in parts. The session's process takes the hits out of the descriptors
 * more often than the policy would, so that these are in the order of time, and what it works is at most a hundredth of the time.
 */
#include "advise.h"

#include <sys/resource.h>

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"

PG_FUNCTION_INFO_V1(ebbpool_requests);

#define COLUMNS 5
/* Records of one call. */
#define MOST_RECORDS 65536
/* Milliseconds between two looks at the descriptors, and times as long as a look took. */
#define SHORTEST 10.0
#define MOST_SHARE 100
/* Records of which the time is measured. */
#define MEASURED 4096

/* As the command reads it (ebbpool-capture, sources/postgres/module.rs): numbers in the machine's order. */
typedef struct EbbRecord
{
	uint32		tablespace;
	uint32		database;
	uint32		relation;
	uint32		block;
	uint8		fork;
	uint8		kind;			/* EbbSeenKind, or RESIDENT */
	uint8		hits;
	uint8		flags;			/* 1: written; 2: by a ring */
} EbbRecord;

#define RESIDENT 4

/* Of this process. */
static bool records = false;
static int	next_frame;			/* whose page is the next of those that were there at the beginning */
static int	look_at = -1;		/* the next frame of the look that is under way; -1 if none is */
static double due;				/* when the next look may begin, by ebb_clock_ms */
static double looked;			/* milliseconds that the present look has taken */
static double used_before;
static uint64 overflows_before;
static uint64 events_before;
static uint64 taken;
static double us_of_record;

static double
processor_us(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

static void
at_exit(int code, Datum argument)
{
	ebb_follow(EBB_CAPTURE, 0);
	ebb_follow_alone(false);
}

static EbbRecord
record_of(const BufferTag *tag, uint8 kind, uint8 hits, bool write, bool by_ring)
{
	return (EbbRecord) {
		.tablespace = ebb_tablespace_of(tag),
		.database = ebb_database_of(tag),
		.relation = ebb_relation_of(tag),
		.block = tag->blockNum,
		.fork = ebb_fork_of(tag),
		.kind = kind,
		.hits = hits,
		.flags = (write ? 1 : 0) | (by_ring ? 2 : 0)
	};
}

/* What the processes that hold the lock take for a record, in microseconds. */
static double
measure(void)
{
	static EbbSeen slots[64];
	double		begun = ebb_clock_ms();

	for (int i = 0; i < MEASURED; i++)
	{
		EbbSeen    *slot = &slots[i % lengthof(slots)];

		slot->tag = GetBufferDescriptor(i % NBuffers)->tag;
		slot->number = ebb_number_of(&slot->tag);
		pg_write_barrier();
	}
	return (ebb_clock_ms() - begun) * 1e3 / MEASURED;
}

static void
refuse(const char *why, const char *remedy)
{
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("ebbpool: %s", why), errhint("%s.", remedy)));
}

static void
combine(uint64 old)
{
	LWLockAcquire(ebb_shared->lock, LW_EXCLUSIVE);
	ebb_combine(old);
	LWLockRelease(ebb_shared->lock);
	ebb_report_failure();
}

static void
begin(void)
{
	uint32		who = ebb_follow_alone(true);

	if (who != MyProcPid)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE), errmsg("ebbpool: another session captures what the policy sees: process %u", who),
						errhint("Wait until it has ended, or end it by pg_terminate_backend.")));
	before_shmem_exit(at_exit, (Datum) 0);
	records = true;
	us_of_record = measure();
	used_before = processor_us();
	overflows_before = pg_atomic_read_u64(&ebb_shared->overflows);
	events_before = 0;
	look_at = -1;
	taken = 0;
	next_frame = 0;
	due = 0;
	/* What came and was hit before is no request of the capture. */
	combine(pg_atomic_read_u64(&ebb_shared->ring_tail));
	ebb_follow_hits(1);
	ebb_follow(EBB_CAPTURE, 1);
}

/*
 * Looks at the next frames, if a look is under way or due. Events that were there when the look before began are reported however few
 * misses followed (6), since a capture ends, and its server may have no more misses. False if there was nothing to look at.
 */
static bool
look(void)
{
	double		begun = ebb_clock_ms();

	if (look_at < 0)
	{
		if (begun < due)
			return false;
		combine(events_before);
		events_before = pg_atomic_read_u64(&ebb_shared->ring_tail);
		looked = 0;
		look_at = 0;
	}
	look_at = ebb_follow_some_hits(1, look_at);
	looked += ebb_clock_ms() - begun;
	if (look_at >= NBuffers)
	{
		look_at = -1;
		due = ebb_clock_ms() + Max(SHORTEST, MOST_SHARE * looked);
	}
	return true;
}

/* A page that a buffer had when the capture began, or that has come since then; false if there is none. */
static bool
resident(int buf_id, EbbRecord *record)
{
	BufferDesc *buf = GetBufferDescriptor(buf_id);
	uint32		state = LockBufHdr(buf);
	BufferTag	tag = buf->tag;

	UnlockBufHdr(buf, state);
	*record = record_of(&tag, RESIDENT, 1, (state & BM_DIRTY) != 0, false);
	return (state & BM_TAG_VALID) != 0;
}

/* What was seen so far, and whether more is there at once. */
static bytea *
take(bool *more)
{
	bytea	   *result = palloc(VARHDRSZ + MOST_RECORDS * sizeof(EbbRecord));
	EbbRecord  *to = (EbbRecord *) VARDATA(result);
	int			number = 0;
	EbbSeen		seen;

	for (; next_frame < NBuffers && number < MOST_RECORDS; next_frame++)
		number += resident(next_frame, &to[number]);
	/* After each part of a look, so that the ring has room for what others see. */
	do
	{
		while (number < MOST_RECORDS && ebb_follow_next(EBB_CAPTURE, &seen))
		{
			to[number++] = record_of(&seen.tag, seen.kind, seen.hits, seen.write, seen.by_ring);
			taken++;
		}
	} while (number < MOST_RECORDS && look());
	*more = number == MOST_RECORDS;
	SET_VARSIZE(result, VARHDRSZ + number * sizeof(EbbRecord));
	return result;
}

Datum
ebbpool_requests(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor;
	Datum		values[COLUMNS];
	bool		nulls[COLUMNS] = {0};
	bool		more;
	uint64		lost;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE || descriptor->natts != COLUMNS)
		ebb_refuse_other_version();
	if (!ebb_shared)
		refuse("the module has no policy in this server, and so sees no requests",
			   "Add ebbpool to shared_preload_libraries, set ebbpool.attach to hooks or redirect, and restart the server");
	if (!ebb_works() || !pg_atomic_read_u32(&ebb_shared->enabled))
		refuse("no policy of the module names victims now, and so none sees the requests",
			   "Set ebbpool.enabled to on, and see what failure in ebbpool_stat says");
	if (!records)
		begin();
	values[1] = Float8GetDatum(ebb_follow_filled(EBB_CAPTURE, &lost));
	values[4] = PointerGetDatum(take(&more));
	values[3] = BoolGetDatum(more);
	(void) ebb_follow_filled(EBB_CAPTURE, &lost);
	values[0] = Int64GetDatum((int64) (lost + pg_atomic_read_u64(&ebb_shared->overflows) - overflows_before));
	values[2] = Int64GetDatum((int64) (processor_us() - used_before + taken * us_of_record));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls)));
}
