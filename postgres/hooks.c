/*
 * hooks.c -- a server with the patch calls the module.
 */
#include "ebbpool_pg.h"

#include <dlfcn.h>

static int
victim_hook(void)
{
	return ebb_shared ? ebb_victim() : -1;
}

#if EBB_VICTIMS_ARE_EMPTIED
/* The page has left; replaced_hook says later which one comes (7). */
static void
emptied_hook(int buf_id)
{
	if (ebb_shared)
		ebb_emptied[buf_id] = true;
}
#endif

static void
replaced_hook(int buf_id, const BufferTag *old_tag, const BufferTag *new_tag)
{
	bool		had_page;

	if (!ebb_shared)
		return;
	had_page = old_tag != NULL || ebb_emptied[buf_id];
	ebb_emptied[buf_id] = false;
	ebb_ring_put(buf_id, had_page, new_tag);
	ebb_drain_long_ring();
}

/*
 * The victims in the queue, one after the other: the clock hand stands still, and around it are pages whose counts the
 * harvest has taken (12). Only the background writer calls this.
 */
static bool
clean_hook(int *buf_id)
{
	static uint64 position = 0;

	if (!ebb_shared || !ebb_works() || !pg_atomic_read_u32(&ebb_shared->enabled))
		return false;
	*buf_id = ebb_queue_peek(&position);
	if (*buf_id >= 0)
		pg_atomic_fetch_add_u64(&ebb_shared->cleaner_named, 1);
	return true;
}

static bool
ring_hook(BufferAccessStrategyType type)
{
	ebb_for_ring = !ebb_bypasses_ring(type);
	return !ebb_for_ring;
}

static void *
symbol(const char *name)
{
	void	   *found = dlsym(RTLD_DEFAULT, name);

	if (!found)
		ereport(FATAL,
				(errmsg("ebbpool: this server has no hooks for policies: it does not export \"%s\"", name),
				 errhint("%s%s. With ebbpool.attach = none the advisor works on any server.", EBB_BUILD_A_SERVER,
						 EBB_CAN_REDIRECT ? ", or try the policy on this one with ebbpool.attach = redirect" : "")));
	return found;
}

void
ebb_attach_hooks(void)
{
	int			version = *(int *) symbol("buffer_hooks_version");

	if (version != EBB_HOOKS_VERSION)
		ereport(FATAL,
				(errmsg("ebbpool: the server has version %d of the hooks, and the module needs version %d", version,
						EBB_HOOKS_VERSION),
				 errhint("Build server and module from one checkout of Ebbpool.")));
	*(ebb_victim_hook *) symbol("buffer_victim_hook") = victim_hook;
#if EBB_VICTIMS_ARE_EMPTIED
	*(ebb_emptied_hook *) symbol("buffer_emptied_hook") = emptied_hook;
#endif
	*(ebb_replaced_hook *) symbol("buffer_replaced_hook") = replaced_hook;
	*(ebb_clean_hook *) symbol("buffer_clean_hook") = clean_hook;
	*(ebb_ring_hook *) symbol("buffer_ring_hook") = ring_hook;
}
