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
SELECT c.active, c.policy, c.failure, c.attach, c.asymmetry,
       s.reads, s.writes, s.reads + c.asymmetry * s.writes AS bill,
       c.since, c.buffers, c.policy_bytes, c.misses, c.victims, c.fallbacks, c.waits, c.rescued, c.refused,
       c.harvested, c.hits, c.more_hits, c.written, c.cleaned, c.dropped, c.found, c.strays, c.cleaner_named,
       c.overflows, c.failures, c.resyncs, c.combines, c.combine_ms, c.queued
FROM ebbpool_counters() c, ebbpool_pages() s;

CREATE VIEW ebbpool_settings AS
SELECT substr(name, length('ebbpool.') + 1) AS name, setting, boot_val AS "default",
       context = 'sighup' AS by_reload, pending_restart, source, min_val AS least, max_val AS most, enumvals AS choices,
       short_desc AS meaning, extra_desc AS remark
FROM pg_settings WHERE name LIKE 'ebbpool.%';

GRANT SELECT ON ebbpool_stat, ebbpool_settings TO PUBLIC;

COMMENT ON VIEW ebbpool_stat IS 'what the server has read and written, and what the policy has done';
COMMENT ON VIEW ebbpool_settings IS 'the settings of ebbpool';
COMMENT ON COLUMN ebbpool_stat.active IS 'whether the policy names victims now';
COMMENT ON COLUMN ebbpool_stat.failure IS 'why the policy has failed, if it has';
COMMENT ON COLUMN ebbpool_stat.reads IS 'pages that the server has read (up to 15, new pages among them) since its statistics were reset';
COMMENT ON COLUMN ebbpool_stat.writes IS 'pages that the server has written (up to 15, new pages among them, and those of backends appear with a checkpoint)';
COMMENT ON COLUMN ebbpool_stat.bill IS 'reads + asymmetry x writes';
COMMENT ON COLUMN ebbpool_stat.since IS 'when the policy was made; what follows is counted since then';
COMMENT ON COLUMN ebbpool_stat.policy_bytes IS 'shared memory for the policy';
COMMENT ON COLUMN ebbpool_stat.misses IS 'pages that came into a buffer';
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
COMMENT ON COLUMN ebbpool_stat.cleaner_named IS 'victims that the background writer was given';
COMMENT ON COLUMN ebbpool_stat.overflows IS 'events that were lost because too many waited';
COMMENT ON COLUMN ebbpool_stat.failures IS 'times that a policy has failed';
COMMENT ON COLUMN ebbpool_stat.resyncs IS 'times that all buffers were compared with what the policy has';
COMMENT ON COLUMN ebbpool_stat.combines IS 'times that a process has reported to the policy and filled the queue';
COMMENT ON COLUMN ebbpool_stat.combine_ms IS 'the time of that, in ms';
COMMENT ON COLUMN ebbpool_stat.queued IS 'victims in the queue now';
