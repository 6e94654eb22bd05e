/*
 * settings.c -- ebbpool.policy and others.
 */
#include "advise.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "utils/guc.h"

char	   *ebb_policy;
double		ebb_asymmetry;
static char *asymmetry_text;
bool		ebb_enabled;
int			ebb_attach;
int			ebb_harvest;
int			ebb_lag;
int			ebb_queue;
bool		ebb_wait;
bool		ebb_bypass_rings;

#define EBB_MAX_ASYMMETRY 1e6

static const struct config_enum_entry attaches[] = {
	{"hooks", EBB_HOOKS, false},
	{"redirect", EBB_REDIRECT, false},
	{"none", EBB_NONE, false},
	{NULL, 0, false}
};

/*
 * Publishes policy and asymmetry, if they are others: a reload assigns each setting again. Only the postmaster, or the only
 * process, does.
 */
static void
publish(const char *policy, double asymmetry)
{
	EbbPublished *published = &ebb_shared->published;

	if (published->policy[0] != '\0' && strcmp(published->policy, policy) != 0 &&
		ebb_policy_size(policy) > ebb_shared->region_size)
	{
		ereport(LOG, (errmsg("ebbpool: the policy \"%s\" takes more memory than the server has for a policy; \"%s\" goes on",
							 policy, published->policy),
					  errhint("Restart the server to change the policy.")));
		policy = published->policy;
	}
	if (strcmp(published->policy, policy) == 0 && published->asymmetry == asymmetry)
		return;
	pg_atomic_fetch_add_u32(&published->version, 1);
	pg_write_barrier();
	memmove(published->policy, policy, strlen(policy) + 1);
	published->asymmetry = asymmetry;
	pg_write_barrier();
	pg_atomic_fetch_add_u32(&published->version, 1);
}

/* At start, when there is shared memory. */
void
ebb_publish_settings(void)
{
	publish(ebb_policy, ebb_asymmetry);
	pg_atomic_write_u32(&ebb_shared->enabled, ebb_enabled);
}

/* The postmaster reads a changed configuration first, and alone publishes it. */
static bool
publishes(void)
{
	return ebb_shared != NULL && !IsUnderPostmaster;
}

static void
assign_policy(const char *value, void *extra)
{
	if (publishes())
		publish(value, ebb_asymmetry);
}

static void
assign_asymmetry(const char *value, void *extra)
{
	ebb_asymmetry = *(double *) extra;
	if (publishes())
		publish(ebb_policy, ebb_asymmetry);
}

static void
assign_enabled(bool value, void *extra)
{
	if (publishes())
		pg_atomic_write_u32(&ebb_shared->enabled, value);
}

/* A small policy is made to see whether there is such a one that lies in a region. */
static bool
check_policy(char **value, void **extra, GucSource source)
{
	size_t		bytes;

	if (strlen(*value) >= EBB_MAX_SPEC)
	{
		GUC_check_errdetail("A policy with its parameters has at most %d bytes.", EBB_MAX_SPEC - 1);
		return false;
	}
	if (ebbpool_policy_bytes(*value, 64, &bytes) != EBBPOOL_OK)
	{
		GUC_check_errdetail("%s.", ebbpool_error_message());
		GUC_check_errhint("\"ebbpool policies\" prints all policies and their parameters.");
		return false;
	}
	return true;
}

/* A number, or the device whose profile has one for pages of this server. */
static bool
check_asymmetry(char **value, void **extra, GucSource source)
{
	double		asymmetry;

	/* It gets its leader's text, whose file may be gone by now, and has its R from the postmaster. */
	if (InitializingParallelWorker)
		asymmetry = ebb_asymmetry;
	else if (!parse_real(*value, &asymmetry, 0, NULL) &&
			 ebbpool_device_asymmetry(*value, BLCKSZ, &asymmetry) != EBBPOOL_OK)
	{
		GUC_check_errdetail("It is neither a number nor a device: %s.", ebbpool_error_message());
		GUC_check_errhint("\"ebbpool devices\" prints all devices.");
		return false;
	}
	if (!(asymmetry >= 0 && asymmetry <= EBB_MAX_ASYMMETRY))
	{
		GUC_check_errdetail("%g is outside the valid range (0 .. %g).", asymmetry, EBB_MAX_ASYMMETRY);
		return false;
	}
	*extra = ebb_extra_malloc(sizeof asymmetry);
	if (*extra == NULL)
		return false;
	*(double *) *extra = asymmetry;
	return true;
}

static void
define_policy(void)
{
	DefineCustomStringVariable("ebbpool.policy", "The policy that names victims, with its parameters.",
							   "Policies other than ebb see a page's hits of some time as one. A policy that takes more memory than the one at the server's start needs a restart.",
							   &ebb_policy, "ebb", PGC_SIGHUP, 0, check_policy, assign_policy, NULL);
	DefineCustomStringVariable("ebbpool.asymmetry", "What a page write costs, in page reads, or the device that has the files.",
							   "\"ebbpool devices\" prints all devices; a file with the profile of another one ends with .toml.",
							   &asymmetry_text, "1", PGC_SIGHUP, 0, check_asymmetry, assign_asymmetry, NULL);
	DefineCustomBoolVariable("ebbpool.enabled", "Whether the policy names victims; otherwise the clock sweep does.", NULL,
							 &ebb_enabled, true, PGC_SIGHUP, 0, NULL, assign_enabled, NULL);
	DefineCustomEnumVariable("ebbpool.attach", "How the server calls the policy.",
							 "\"hooks\" needs a patched server, \"redirect\" changes the code of any other, for trials; with \"none\" only the advisor works.",
							 &ebb_attach, EBB_HOOKS, attaches, PGC_POSTMASTER, 0, NULL, NULL, NULL);
}

static void
define_details(void)
{
	DefineCustomIntVariable("ebbpool.harvest", "Buffers whose hits are read for each miss.", NULL,
							&ebb_harvest, 32, 1, 1024, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("ebbpool.lag", "The latest misses, which are not reported to the policy yet.",
							"Meanwhile the page is read and, if it was read to be changed, dirty.",
							&ebb_lag, 8, 0, 128, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("ebbpool.queue", "Victims named in advance; 0 for a 64th of the buffers, at least 32.", NULL,
							&ebb_queue, 0, 0, EBB_QUEUE_SLOTS / 2, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("ebbpool.wait", "Whether a miss without a victim waits for the policy.",
							 "Otherwise the clock sweep serves it. With on, a process that is stopped while it has the policy's lock stops the server.",
							 &ebb_wait, false, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("ebbpool.bypass_rings", "Whether large scans get their buffers from the policy.",
							 "Otherwise they use a small ring of buffers, as without Ebbpool.",
							 &ebb_bypass_rings, false, PGC_SIGHUP, 0, NULL, NULL, NULL);
}

void
ebb_define_settings(void)
{
	define_policy();
	define_details();
	DefineCustomBoolVariable("ebbpool.advise", "Whether the advisor works: see the view ebbpool_advice.",
							 "It watches the clock sweep, or what the policy sees that names victims.",
							 &ebb_advise, false, PGC_SIGHUP, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("ebbpool");
}
