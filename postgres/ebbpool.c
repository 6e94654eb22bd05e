/*
 * ebbpool.c -- a replacement policy of Ebbpool in place of the clock sweep of PostgreSQL.
 *
 * The policy lies in shared memory, and is used under one lock. A process that misses a page takes a victim from a queue,
 * without a lock. One that finds the queue low works for all, as the combiner: it reports to the policy which pages were
 * replaced (a ring of events) and which were hit (read from the descriptors of the buffers), and has it name victims.
 *
 * Invariants, which the other files cite by number:
 *
 *	1. A hit runs the server's code only. The combiner reads hits from usage counts and writes from BM_JUST_DIRTIED, in
 *	   `ebbpool.harvest` descriptors for each miss. So it sees each frame once while a 32nd of the frames is replaced, which
 *	   is what policies without EBBPOOL_POLICY_EVERY_HIT ask for. The advisor takes hits of sampled pages more often; the frame owes
 *	   them to the policy until the combiner sees it. It changes a descriptor by one compare-and-swap, and only
 *	   while BM_LOCKED is off: who holds the header's lock stores the whole state, and the change would be lost. The
 *	   policy's pointers are valid in each process, because all of them inherit the memory and the library from the
 *	   postmaster at the same addresses.
 *	2. BM_JUST_DIRTIED is cleared only while BM_DIRTY is on and BM_IO_IN_PROGRESS off. During a write of the page the bit
 *	   means "dirty again", and to clear it would lose a change. All these bits are in one atomic word. Where hint bits are logged
 *	   (checksums), a page that is older than the last checkpoint keeps the bit: without it the server would log the whole
 *	   page at each change of a hint.
 *	3. A victim is a hint. The server takes it under the header's lock, if it has no pin and the usage count is 0. Since
 *	   the harvest sets the count to 0, a page that it finds hit in the queue gets the mark RESCUED, and is no victim. A
 *	   frame that a process has popped is TAKEN until its new page is reported, so that it is not named twice.
 *	4. The queue has positions of 64 bits that only grow, so that no position comes again. The combiner writes the slot, then the
 *	   tail; a popper reads the tail, then the slot, and moves the head by compare-and-swap.
 *	5. The ring of events: a process reserves a position, writes the event, and then publishes it. The combiner stops at the first
 *	   one that is not published. Events of one frame are in order, since its process has it pinned. An event that is lost
 *	   sets `events_lost`; then the next combiner compares all frames with their descriptors.
 *	6. The latest `ebbpool.lag` events wait. By then the page is read and, if that was for a change, dirty: the policy learns
 *	   whether it was a write. The usage count of 1 that the admission gives is no hit.
 *	7. One replacement is miss, evicted or dropped, admit, in this order. The victim was chosen before. From PostgreSQL 16 on the
 *	   old page leaves before the new one is known: `ebb_emptied` remembers it until then, and a buffer without a page that is
 *	   pinned is left alone. Its process may give up; then the page counts as dropped.
 *	8. A page's number is a hash of database, relation and fork, and the block; its class is the same hash. Two relations with
 *	   one hash would share numbers: the policy would confuse what it remembers of them, and nothing else.
 *	9. The harvest finds pages that were dropped, since BM_TAG_VALID is off; their buffers are on the free list, which the
 *	   server asks before the policy. A buffer without a page that is not on it has been lost by a race or an error in the
 *	   server, or emptied by pg_buffercache_evict; the harvest queues it.
 *	10. The harvest finds pages that no event has named, or that came later than their event (without hooks the event is
 *	   recorded before the page is there): a frame that has another page than the policy has there in two looks is compared.
 *	11. After a failure of the policy the server goes on with the clock sweep. No call of a policy allocates; what a policy lacks
 *	   in its region when it is made is allocated until it is refused. The library lets no panic out.
 *	12. The clock hand stands still, so the background writer's guess is void, and harmful: around the hand are hot pages whose
 *	   counts were harvested. With hooks it writes the victims in the queue.
 *	13. Checkpoints need nothing: the harvest finds BM_DIRTY off.
 *	14. Asynchronous I/O (18) has its own pin on a buffer until it ends, in whichever process, and reads only: the buffer is no
 *	   victim, and has no change to lose. Streams of reads (17) pin buffers in advance, as many as the server allows them. To the
 *	   policy these are misses as others; a change that comes after `ebbpool.lag` misses is reported as a write then (6).
 *	15. Vacuum, bulk writes and large scans keep their rings, unless `ebbpool.bypass_rings` gives the scans to the policy. A ring takes
 *	   its buffers from the policy: around the clock hand are hot pages (12).
 *	16. A ring replaces its own pages, however the policy decides. A policy that learned of each such miss would adapt to traffic
 *	   that it cannot change. It learns of the first page that a ring has replaced in a frame; those after it are EBB_UNREPORTED, until the
 *	   harvest finds one hit. The usage count of 1 that the ring gives stays until the look after its page came, and the frame
 *	   is no victim until then. A look is owed for pages that are reported, so rings do not make looks more frequent. A page that the
 *	   ring has left dirty may be of use to others: at the second look it is the policy's, and most pages of COPY and CREATE TABLE AS
 *	   are.
 *
 * If a process dies, the postmaster makes all shared memory anew, and with it a new policy.
 */
#include "advise.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

PG_MODULE_MAGIC;

EbbShared  *ebb_shared;
uint64	   *ebb_page;
uint16	   *ebb_state;
uint8	   *ebb_mark;
uint8	   *ebb_emptied;

static shmem_request_hook_type previous_request;
static shmem_startup_hook_type previous_startup;

void		_PG_init(void);

/* The structure, and of each frame a page, a state, a mark, and whether it was emptied. */
static Size
shared_size(void)
{
	Size		of_a_frame = sizeof(*ebb_page) + sizeof(*ebb_state) + sizeof(*ebb_mark) + sizeof(*ebb_emptied);

	return add_size(add_size(sizeof(EbbShared), 256), mul_size(NBuffers, of_a_frame));
}

/*
 * Bytes for the policy of the configuration, and for the default with either beginning, to which a reload may change. As at the
 * first start, also when the postmaster makes shared memory anew.
 */
static Size
region_size(void)
{
	static Size size = 0;

	if (size == 0)
	{
		Size		of_policy = ebb_policy_size(ebb_policy);

		if (of_policy == 0)
			ereport(FATAL, (errmsg("ebbpool: no policy \"%s\" for %d buffers: %s", ebb_policy, NBuffers, ebbpool_error_message())));
		size = Max(of_policy, Max(ebb_policy_size("ebb"), ebb_policy_size("ebb:begin=ebb")));
#ifdef __GLIBC__
		/* Each of them was made to learn its size. What they took would stay the postmaster's, and of all its children. */
		malloc_trim(0);
#endif
	}
	return size;
}

static void
request(void)
{
	if (previous_request)
		previous_request();
	RequestAddinShmemSpace(add_size(shared_size(), 64));
	RequestAddinShmemSpace(add_size(region_size(), 64));
	RequestNamedLWLockTranche("ebbpool", 1);
}

static void
initialize(void *region)
{
	memset(ebb_shared, 0, sizeof(EbbShared));
	ebb_shared->lock = &GetNamedLWLockTranche("ebbpool")->lock;
	ebb_shared->frames = NBuffers;
	ebb_shared->attach = ebb_attach;
	ebb_shared->region = region;
	ebb_shared->region_size = region_size();
	ebb_shared->since = GetCurrentTimestamp();
	memset(ebb_page, 0, NBuffers * sizeof(*ebb_page));
	memset(ebb_mark, 0, NBuffers);
	memset(ebb_emptied, 0, NBuffers);
	ebb_publish_settings();
	ebb_make_policy(ebb_policy);
	ereport(LOG,
			(errmsg("ebbpool: %zu bytes for the policy \"%s\" of %d buffers, and %zu for the module", region_size(),
					ebb_policy, NBuffers, shared_size() + ebb_followed_size())));
	ebb_report_failure();
}

/* At each start, and again when the postmaster has made all shared memory anew. */
static void
startup(void)
{
	bool		found;
	void	   *shared;
	void	   *region;

	if (previous_startup)
		previous_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("ebbpool", shared_size(), &found);
	region = ShmemInitStruct("ebbpool policy", region_size(), &found);
	ebb_shared = (EbbShared *) TYPEALIGN(128, shared);
	ebb_page = (uint64 *) MAXALIGN((char *) ebb_shared + sizeof(EbbShared));
	ebb_state = (uint16 *) (ebb_page + NBuffers);
	ebb_mark = (uint8 *) (ebb_state + NBuffers);
	ebb_emptied = ebb_mark + NBuffers;
	if (!found)
		initialize(region);
	LWLockRelease(AddinShmemInitLock);
}

void
_PG_init(void)
{
	/* CREATE EXTENSION loads the module, too: its views then say what is missing. */
	if (!process_shared_preload_libraries_in_progress)
		return;
	if (ebbpool_check_abi(EBBPOOL_ABI_VERSION) != EBBPOOL_OK)
		ereport(FATAL, (errmsg("ebbpool: %s", ebbpool_error_message()),
						errhint("Build the module with the header of the library that is installed.")));
	ebb_define_settings();
	ebb_attach_advisor();
	if (ebb_attach == EBB_NONE)
		return;
	previous_request = shmem_request_hook;
	shmem_request_hook = request;
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = startup;
	if (ebb_attach == EBB_REDIRECT)
		ebb_attach_redirect();
	else
		ebb_attach_hooks();
}
