/*
 * views.c -- the function behind the view ebbpool_stat.
 */
#include "ebbpool_pg.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#define COLUMNS 32

/* Milliseconds for which a view waits for the policy's lock, which a stopped process may have for ever. */
#define MOST_WAIT 100

PG_FUNCTION_INFO_V1(ebbpool_counters);

typedef struct Row
{
	Datum		values[COLUMNS];
	bool		nulls[COLUMNS];
	int			length;
} Row;

static void
add(Row *row, Datum value)
{
	row->values[row->length++] = value;
}

static void
add_number(Row *row, uint64 value)
{
	add(row, Int64GetDatum((int64) value));
}

static void
add_text_or_null(Row *row, const char *text, bool is_there)
{
	row->nulls[row->length] = !is_there;
	add(row, is_there ? CStringGetTextDatum(text) : (Datum) 0);
}

static void
add_state(Row *row, bool is_exact)
{
	bool		works = ebb_works();

	add(row, BoolGetDatum(works && pg_atomic_read_u32(&ebb_shared->enabled)));
	add(row, CStringGetTextDatum(ebb_shared->policy_name));
	add_text_or_null(row, ebb_shared->leader, is_exact && works && ebb_shared->leader[0]);
	add_text_or_null(row, ebb_shared->failure, !works);
	add(row, CStringGetTextDatum(ebb_shared->attach == EBB_REDIRECT ? "redirect" : "hooks"));
	add(row, Float8GetDatum(ebb_shared->published.asymmetry));
	add(row, TimestampTzGetDatum(ebb_shared->since));
	add_number(row, ebb_shared->frames);
	add_number(row, ebb_shared->region_size);
}

static void
add_counters(Row *row, const EbbCounters *counters, bool is_exact)
{
	add_number(row, counters->events + ebb_ring_length() + pg_atomic_read_u64(&ebb_shared->overflows) +
			   pg_atomic_read_u64(&ebb_shared->unseen));
	add_number(row, counters->victims);
	add_number(row, pg_atomic_read_u64(&ebb_shared->fallbacks));
	add_number(row, pg_atomic_read_u64(&ebb_shared->waits));
	add_number(row, pg_atomic_read_u64(&ebb_shared->rescued));
	add_number(row, counters->refused);
	add_number(row, counters->harvested);
	add_number(row, counters->hits);
	add_number(row, counters->more_hits);
	add_number(row, counters->writes);
	add_number(row, counters->cleaned);
	add_number(row, counters->dropped);
	add_number(row, counters->found);
	add_number(row, counters->strays);
	add_number(row, counters->unreported);
	add_number(row, pg_atomic_read_u64(&ebb_shared->cleaner_named));
	add_number(row, pg_atomic_read_u64(&ebb_shared->overflows));
	add_number(row, pg_atomic_read_u64(&ebb_shared->failures));
	add_number(row, counters->resyncs);
	add_number(row, counters->combines);
	add(row, Float8GetDatum(INSTR_TIME_GET_MILLISEC(counters->time)));
	add_number(row, ebb_queue_length());
	add(row, BoolGetDatum(is_exact));
}

static bool
lock_some_time(void)
{
	for (int i = 0; i < MOST_WAIT; i++)
	{
		if (LWLockConditionalAcquire(ebb_shared->lock, LW_SHARED))
			return true;
		CHECK_FOR_INTERRUPTS();
		pg_usleep(1000);
	}
	return false;
}

void
ebb_refuse_other_version(void)
{
	ereport(ERROR,
			(errmsg("the extension ebbpool is of another version than the module"),
			 errhint("Run ALTER EXTENSION ebbpool UPDATE.")));
}

Datum
ebbpool_counters(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor;
	Row			row = {{0}, {0}, 0};
	bool		is_exact;

	if (!ebb_shared)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("ebbpool has no policy in this server"),
				 errhint("Add ebbpool to shared_preload_libraries, set ebbpool.attach to hooks or redirect, and restart the server.")));
	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE || descriptor->natts != COLUMNS)
		ebb_refuse_other_version();
	is_exact = lock_some_time();
	add_state(&row, is_exact);
	add_counters(&row, &ebb_shared->counters, is_exact);
	if (is_exact)
		LWLockRelease(ebb_shared->lock);
	Assert(row.length == COLUMNS);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), row.values, row.nulls)));
}
