/* ebbpool--0.1.0.sql */
\echo Use "CREATE EXTENSION ebbpool" to load this file. \quit

CREATE FUNCTION ebbpool_counters(
    OUT active boolean,
    OUT policy text,
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
    OUT cleaner_named bigint,
    OUT overflows bigint,
    OUT failures bigint,
    OUT resyncs bigint,
    OUT combines bigint,
    OUT combine_ms double precision,
    OUT queued bigint)
AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL SAFE;

COMMENT ON FUNCTION ebbpool_counters() IS 'what the policy has done since the server started';

-- Reads and writes are the server's own counters, since its statistics were reset.
CREATE VIEW ebbpool_stat AS
SELECT c.active, c.policy, c.failure, c.attach, c.asymmetry,
       s.reads, s.writes, s.reads + c.asymmetry * s.writes AS bill,
       c.since, c.buffers, c.policy_bytes, c.misses, c.victims, c.fallbacks, c.waits, c.rescued, c.refused,
       c.harvested, c.hits, c.more_hits, c.written, c.cleaned, c.dropped, c.found, c.strays, c.cleaner_named,
       c.overflows, c.failures, c.resyncs, c.combines, c.combine_ms, c.queued
FROM ebbpool_counters() c,
     (SELECT (SELECT sum(blks_read)::bigint FROM pg_stat_database) AS reads,
             buffers_checkpoint + buffers_clean + buffers_backend AS writes
      FROM pg_stat_bgwriter) s;

CREATE VIEW ebbpool_settings AS
SELECT substr(name, length('ebbpool.') + 1) AS name, setting, boot_val AS "default",
       context = 'sighup' AS by_reload, pending_restart, source, min_val AS least, max_val AS most, enumvals AS choices,
       short_desc AS meaning, extra_desc AS remark
FROM pg_settings WHERE name LIKE 'ebbpool.%';

GRANT SELECT ON ebbpool_stat, ebbpool_settings TO PUBLIC;
