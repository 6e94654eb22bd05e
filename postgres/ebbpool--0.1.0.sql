/* ebbpool--0.1.0.sql */
\echo Use "CREATE EXTENSION ebbpool" to load this file. \quit

CREATE FUNCTION ebbpool_counters(
    OUT active boolean,
    OUT policy text,
    OUT leader text,
    OUT failure text,
    OUT attach text,
    OUT asymmetry double precision,
    OUT since timestamptz,
    OUT buffers bigint,
    OUT policy_bytes bigint,
    OUT misses bigint,
    OUT victims bigint,
    OUT fallbacks bigint,
    OUT waits bigint,
    OUT rescued bigint,
    OUT refused bigint,
    OUT harvested bigint,
    OUT hits bigint,
    OUT more_hits bigint,
    OUT written bigint,
    OUT cleaned bigint,
    OUT dropped bigint,
    OUT found bigint,
    OUT strays bigint,
    OUT ring_pages bigint,
    OUT cleaner_named bigint,
    OUT overflows bigint,
    OUT failures bigint,
    OUT resyncs bigint,
    OUT combines bigint,
    OUT combine_ms double precision,
    OUT queued bigint,
    OUT exact boolean)
AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE;

COMMENT ON FUNCTION ebbpool_counters() IS 'what the policy has done since the server started';

-- The server's own counters since its statistics were reset, which are in other views from one version to the next.
CREATE FUNCTION ebbpool_pages(OUT reads bigint, OUT writes bigint) LANGUAGE plpgsql AS $$
BEGIN
    SELECT sum(d.blks_read) INTO reads FROM pg_stat_database d;
    IF current_setting('server_version_num')::int >= 160000 THEN
        SELECT sum(i.writes) INTO writes FROM pg_stat_io i WHERE i.object = 'relation';
    ELSE
        SELECT b.buffers_checkpoint + b.buffers_clean + b.buffers_backend INTO writes FROM pg_stat_bgwriter b;
    END IF;
END $$;

COMMENT ON FUNCTION ebbpool_pages() IS 'pages that the server has read and written';

CREATE VIEW ebbpool_stat AS
SELECT c.active, c.policy, c.leader, c.failure, c.attach, c.asymmetry,
       r.reads, s.writes, r.reads + c.asymmetry * s.writes AS bill,
       c.since, c.buffers, c.policy_bytes, c.misses, c.victims, c.fallbacks, c.waits, c.rescued, c.refused,
       c.harvested, c.hits, c.more_hits, c.written, c.cleaned, c.dropped, c.found, c.strays, c.ring_pages,
       c.cleaner_named, c.overflows, c.failures, c.resyncs, c.combines, c.combine_ms, c.queued, c.exact
FROM ebbpool_counters() c, ebbpool_pages() s,
     LATERAL (SELECT CASE WHEN pg_is_in_recovery() THEN c.misses ELSE s.reads END AS reads) r;

CREATE VIEW ebbpool_settings AS
SELECT substr(name, length('ebbpool.') + 1) AS name, setting, boot_val AS "default",
       context = 'sighup' AS by_reload, pending_restart, source, min_val AS least, max_val AS most, enumvals AS choices,
       short_desc AS meaning, extra_desc AS remark
FROM pg_settings WHERE name LIKE 'ebbpool.%';

GRANT SELECT ON ebbpool_stat, ebbpool_settings TO PUBLIC;

COMMENT ON VIEW ebbpool_stat IS 'what the server has read and written, and what the policy has done';
COMMENT ON VIEW ebbpool_settings IS 'the settings of ebbpool';
COMMENT ON COLUMN ebbpool_stat.active IS 'whether the policy names victims now';
COMMENT ON COLUMN ebbpool_stat.leader IS 'the policy that names victims now, of those that compete in this one: ebb or lru in the duel of ebb; null where none do, and where exact is false';
COMMENT ON COLUMN ebbpool_stat.failure IS 'why the policy has failed, if it has';
COMMENT ON COLUMN ebbpool_stat.reads IS 'pages that the server has read (those of temporary tables and, up to 15, new pages among them) since its statistics were reset; on a standby misses, as no other counter has what replay reads, so that they change at a promotion';
COMMENT ON COLUMN ebbpool_stat.writes IS 'pages that the server has written (up to 15, new pages among them, and those of backends appear with a checkpoint)';
COMMENT ON COLUMN ebbpool_stat.bill IS 'reads + asymmetry x writes';
COMMENT ON COLUMN ebbpool_stat.since IS 'when the policy was made; what follows is counted since then';
COMMENT ON COLUMN ebbpool_stat.policy_bytes IS 'shared memory for the policy';
COMMENT ON COLUMN ebbpool_stat.misses IS 'pages that came into a buffer, while the policy was off, too';
COMMENT ON COLUMN ebbpool_stat.victims IS 'buffers that the policy has named';
COMMENT ON COLUMN ebbpool_stat.fallbacks IS 'misses that the clock sweep has served while the policy was enabled';
COMMENT ON COLUMN ebbpool_stat.waits IS 'misses that have waited for the policy (ebbpool.wait)';
COMMENT ON COLUMN ebbpool_stat.rescued IS 'victims that were hit before they were taken, and stayed';
COMMENT ON COLUMN ebbpool_stat.refused IS 'times that the policy named no victim';
COMMENT ON COLUMN ebbpool_stat.harvested IS 'descriptors of buffers that were looked at';
COMMENT ON COLUMN ebbpool_stat.hits IS 'pages that had been hit between two looks';
COMMENT ON COLUMN ebbpool_stat.more_hits IS 'their hits beyond the first, up to four between two looks';
COMMENT ON COLUMN ebbpool_stat.written IS 'pages that had been written between two looks';
COMMENT ON COLUMN ebbpool_stat.cleaned IS 'dirty pages that had become clean';
COMMENT ON COLUMN ebbpool_stat.dropped IS 'pages that had ceased to exist';
COMMENT ON COLUMN ebbpool_stat.found IS 'pages that no event had named';
COMMENT ON COLUMN ebbpool_stat.strays IS 'buffers without a page outside of the free list, as races, errors and pg_buffercache_evict leave them';
COMMENT ON COLUMN ebbpool_stat.ring_pages IS 'pages that took the place of another one in a ring of a scan, a bulk write or VACUUM, of which the policy learns only if they are hit; of most pages of bulk writes it learns';
COMMENT ON COLUMN ebbpool_stat.cleaner_named IS 'victims that the background writer was given';
COMMENT ON COLUMN ebbpool_stat.overflows IS 'events that were lost because too many waited';
COMMENT ON COLUMN ebbpool_stat.failures IS 'times that a policy has failed';
COMMENT ON COLUMN ebbpool_stat.resyncs IS 'times that all buffers were compared with what the policy has';
COMMENT ON COLUMN ebbpool_stat.combines IS 'times that a process has reported to the policy and filled the queue';
COMMENT ON COLUMN ebbpool_stat.combine_ms IS 'the time of that, in ms';
COMMENT ON COLUMN ebbpool_stat.queued IS 'victims in the queue now';
COMMENT ON COLUMN ebbpool_stat.exact IS 'false: a process has held the policy''s lock for a tenth of a second, perhaps since it is stopped; the counters are read without it';

-- For captures. What it shows says which rows are used.
CREATE FUNCTION ebbpool_requests(OUT lost bigint, OUT filled double precision, OUT spent_us bigint, OUT more boolean,
    OUT requests bytea)
AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

REVOKE ALL ON FUNCTION ebbpool_requests() FROM PUBLIC;

COMMENT ON FUNCTION ebbpool_requests() IS 'what the policy has seen since the session''s call before, for ebbpool capture postgres --module; it ends with the session';

-- The advisor.

CREATE FUNCTION ebbpool_advise(
    OUT policy text,
    OUT buffers bigint,
    OUT reads double precision,
    OUT writes double precision,
    OUT model_reads bigint,
    OUT model_writes bigint,
    OUT filled double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE ROWS 14;

CREATE FUNCTION ebbpool_advisor_state(
    OUT state text,
    OUT asymmetry double precision,
    OUT since timestamptz,
    OUT until timestamptz,
    OUT one_of bigint,
    OUT laps double precision,
    OUT lost bigint,
    OUT looks bigint,
    OUT resident double precision,
    OUT samples bigint,
    OUT found bigint,
    OUT hits bigint,
    OUT guessed bigint,
    OUT cpu_ms double precision,
    OUT ring_reads bigint)
AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE;

CREATE FUNCTION ebbpool_advise_reset() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE;

REVOKE ALL ON FUNCTION ebbpool_advise_reset() FROM PUBLIC;

-- Materialized: the advisor may publish between two calls.
CREATE VIEW ebbpool_advice AS
WITH a AS MATERIALIZED (SELECT * FROM ebbpool_advise())
SELECT a.policy,
       pg_size_pretty(a.buffers * current_setting('block_size')::bigint) AS shared_buffers,
       round(a.reads)::bigint AS reads,
       round(a.writes)::bigint AS writes,
       round(a.reads + s.asymmetry * a.writes)::bigint AS bill,
       round((100 * (a.reads + s.asymmetry * a.writes) / nullif(b.reads + s.asymmetry * b.writes, 0) - 100)::numeric, 1)
           AS change,
       a.model_reads, a.model_writes, round(a.filled::numeric) AS filled
FROM a, ebbpool_advisor_state() s, (SELECT reads, writes FROM a WHERE policy = 'server') b;

CREATE VIEW ebbpool_advisor AS SELECT * FROM ebbpool_advisor_state();

GRANT SELECT ON ebbpool_advice, ebbpool_advisor TO PUBLIC;

COMMENT ON FUNCTION ebbpool_advise_reset() IS 'has the advisor count from now on; it goes on with what it has in its miniatures';
COMMENT ON VIEW ebbpool_advice IS 'what other policies and other sizes of shared_buffers would have read and written in the same time';
COMMENT ON COLUMN ebbpool_advice.policy IS 'server: buffers that it has counted, and its reads through rings; clock: its clock sweep, as the advisor models it';
COMMENT ON COLUMN ebbpool_advice.shared_buffers IS 'the size for which the row answers';
COMMENT ON COLUMN ebbpool_advice.reads IS 'pages read: what the server counted, times model_reads, divided by those of the row that has its policy and size (clock, or the policy that names victims); reads through rings are added as they are. Null before 10 reads of samples, and for other sizes where a tenth of the reads are through rings';
COMMENT ON COLUMN ebbpool_advice.writes IS 'pages written, in the same way; what the server wrote beyond what model_writes stand for is added as it is';
COMMENT ON COLUMN ebbpool_advice.bill IS 'reads + ebbpool.asymmetry x writes';
COMMENT ON COLUMN ebbpool_advice.change IS 'of the bill against the server, in %';
COMMENT ON COLUMN ebbpool_advice.model_reads IS 'what the samples alone say: for the policy and size of the server, compare them with the server; new pages are among them';
COMMENT ON COLUMN ebbpool_advice.model_writes IS 'the same for writes';
COMMENT ON COLUMN ebbpool_advice.filled IS 'frames of the model in use, in %; while they become more, larger sizes read less than the row says';
COMMENT ON VIEW ebbpool_advisor IS 'what the advisor does and costs';
COMMENT ON COLUMN ebbpool_advisor.state IS 'off; starts (if for longer, the log of the server says why); works; follows: a policy of ebbpool names victims, and the rows say what others would have done; paused: that policy has no row';
COMMENT ON COLUMN ebbpool_advisor.one_of IS 'one page of this many is a sample';
COMMENT ON COLUMN ebbpool_advisor.laps IS 'how often the clock hand has passed all buffers, or the policy named as many victims; smaller sizes have no figures before the first';
COMMENT ON COLUMN ebbpool_advisor.lost IS 'buffers that the hand passed again before the advisor looked, or what the policy saw and had no room for: where these are many, distrust it';
COMMENT ON COLUMN ebbpool_advisor.looks IS 'times that the advisor looked at descriptors, or at what the policy saw';
COMMENT ON COLUMN ebbpool_advisor.resident IS 'samples in the buffers, on average; null while it follows';
COMMENT ON COLUMN ebbpool_advisor.samples IS 'reads of sampled pages';
COMMENT ON COLUMN ebbpool_advisor.found IS 'of these, pages that had come otherwise than by the hand';
COMMENT ON COLUMN ebbpool_advisor.hits IS 'sampled pages that had been hit between two looks';
COMMENT ON COLUMN ebbpool_advisor.guessed IS 'of these, hits that a full usage count hides, and that the advisor assumes';
COMMENT ON COLUMN ebbpool_advisor.cpu_ms IS 'processor time of the advisor, in ms';
COMMENT ON COLUMN ebbpool_advisor.ring_reads IS 'pages read, and new ones, through rings (up to 15, those of temporary tables, too): no policy changes them, but another size does, by which PostgreSQL decides what it reads through a ring';
