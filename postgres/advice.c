/*
 * advice.c -- the functions behind the views of the advisor.
 *
 * The miniature that is as large as the server and has its policy reads and writes about what the samples' share of the
 * server does. What it misses of that, the others miss, too: so the answers are the server's own counts times the
 * miniature's, divided by those of that one. Reads through rings are the same whatever the policy is, and so are new pages,
 * which the miniatures have among their reads, and servers from 16 on have not. At other sizes other tables are read through
 * rings: where these are many, there is no answer.
 */
#include "advise.h"

#include <math.h>

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(ebbpool_advise);
PG_FUNCTION_INFO_V1(ebbpool_advisor_state);
PG_FUNCTION_INFO_V1(ebbpool_advise_reset);

#define ADVICE_COLUMNS 7
#define STATE_COLUMNS 15
/* What fewer reads of samples say is chance. */
#define LEAST_READS 10
/* The share of reads through rings above which there is no answer for other sizes. */
#define MOST_RINGS 0.1

static void
get_advice(EbbAdvice *advice)
{
	if (!ebb_copy_advice(advice))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("ebbpool was not loaded when the server started"),
				 errhint("Add ebbpool to shared_preload_libraries, and restart the server.")));
}

static double
scaled(double of_server, uint64 count, uint64 of_base)
{
	return of_server * count / of_base;
}

/* Of the reads; new pages, where the server counts them, go through rings at any size. */
static double
ring_share(const EbbAdvice *advice)
{
	double		reads = (double) advice->server.allocated + advice->server.rings - advice->server.extended;

	return ((double) advice->server.rings - advice->server.extended) / Max(reads, 1);
}

/*
 * What the server wrote beyond what the samples stand for came from rings or, up to 15, were new pages and files: these remain
 * as they are. `allocated` has the replay of a standby, too.
 */
static double
writes_of(const EbbAdvice *advice, const EbbMiniatureCounts *it, const EbbMiniatureCounts *base)
{
	double		one = (double) advice->server.allocated / base->reads;
	double		seen = one * base->writes;

	if (seen > advice->server.writes)
		return scaled(advice->server.writes, it->writes, base->writes);
	return advice->server.writes - seen + one * it->writes;
}

/* A row of a miniature: nulls where the samples say nothing. */
static void
put_miniature(ReturnSetInfo *result, const EbbAdvice *advice, int i)
{
	const EbbMiniatureCounts *it = &advice->miniatures[i];
	const EbbMiniatureCounts *base = &advice->miniatures[advice->of_server];
	uint64		buffers = (uint64) NBuffers * ebb_pairs[i].numerator / ebb_pairs[i].denominator;
	Datum		values[ADVICE_COLUMNS];
	bool		nulls[ADVICE_COLUMNS] = {false};

	values[0] = CStringGetTextDatum(ebb_pairs[i].policy);
	values[1] = Int64GetDatum(buffers);
	/* Smaller sizes: before the hand has passed all buffers, usage counts do not say which pages could go, nor are they read. */
	nulls[3] = it->failed || base->reads < LEAST_READS || (buffers < NBuffers && advice->hand < NBuffers);
	nulls[2] = nulls[3] || (buffers != NBuffers && ring_share(advice) > MOST_RINGS);
	values[2] = nulls[2] ? (Datum) 0 :
		Float8GetDatum(Max(scaled(advice->server.allocated, it->reads, base->reads) + advice->server.rings -
						   advice->server.extended, 0));
	values[3] = nulls[3] ? (Datum) 0 : Float8GetDatum(writes_of(advice, it, base));
	values[4] = Int64GetDatum(it->reads * advice->one_of);
	values[5] = Int64GetDatum(it->writes * advice->one_of);
	values[6] = Float8GetDatum(100.0 * it->used / it->frames);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

Datum
ebbpool_advise(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	EbbAdvice	advice;
	Datum		values[ADVICE_COLUMNS] = {0};
	bool		nulls[ADVICE_COLUMNS] = {false, false, false, false, true, true, true};

	get_advice(&advice);
	InitMaterializedSRF(fcinfo, 0);
	if (result->setDesc->natts != ADVICE_COLUMNS)
		ebb_refuse_other_version();
	if (!advice.works || advice.of_server < 0)
		return (Datum) 0;
	values[0] = CStringGetTextDatum("server");
	values[1] = Int64GetDatum(NBuffers);
	values[2] = Float8GetDatum(Max((double) advice.server.allocated + advice.server.rings - advice.server.extended, 0));
	values[3] = Float8GetDatum(advice.server.writes);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	for (int i = 0; i < EBB_MINIATURES; i++)
		put_miniature(result, &advice, i);
	return (Datum) 0;
}

static const char *
state_of(const EbbAdvice *advice)
{
	if (!advice->works)
		return ebb_advise ? "starts" : "off";
	if (!advice->follows)
		return "works";
	return advice->of_server < 0 ? "paused" : "follows";
}

Datum
ebbpool_advisor_state(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor;
	EbbAdvice	advice;
	Datum		values[STATE_COLUMNS];
	bool		nulls[STATE_COLUMNS] = {false};
	int			at = 0;

	get_advice(&advice);
	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE || descriptor->natts != STATE_COLUMNS)
		ebb_refuse_other_version();
	values[at++] = CStringGetTextDatum(state_of(&advice));
	values[at++] = Float8GetDatum(advice.asymmetry);
	nulls[at] = advice.since == 0;
	values[at++] = TimestampTzGetDatum(advice.since);
	nulls[at] = advice.until == 0;
	values[at++] = TimestampTzGetDatum(advice.until);
	values[at++] = Int64GetDatum(advice.one_of);
	values[at++] = Float8GetDatum((double) advice.hand / NBuffers);
	values[at++] = Int64GetDatum(advice.lost);
	values[at++] = Int64GetDatum(advice.looks);
	nulls[at] = advice.follows;
	values[at++] = Float8GetDatum(rint((double) advice.resident / Max(advice.looks, 1)));
	values[at++] = Int64GetDatum(advice.samples);
	values[at++] = Int64GetDatum(advice.found);
	values[at++] = Int64GetDatum(advice.hits);
	values[at++] = Int64GetDatum(advice.guessed);
	values[at++] = Float8GetDatum(advice.cpu_ms);
	values[at++] = Int64GetDatum(advice.server.rings);
	Assert(at == STATE_COLUMNS);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls)));
}

Datum
ebbpool_advise_reset(PG_FUNCTION_ARGS)
{
	EbbAdvice	advice;

	get_advice(&advice);
	ebb_request_reset();
	PG_RETURN_VOID();
}
