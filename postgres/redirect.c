/*
 * redirect.c -- the module in a server without the patch, for trials.
 *
 * The postmaster overwrites the first instructions of two functions of the server, StrategyGetBuffer and BufTableInsert,
 * with jumps, before it forks. A copy of the overwritten instructions jumps back to the rest. The server does not start
 * if an instruction is not known to work at another address, or if version or processor are others.
 */
#include "ebbpool_pg.h"

#if EBB_CAN_REDIRECT

#include <sys/mman.h>
#include <unistd.h>

#include "utils/guc.h"

typedef BufferDesc *(*GetFunction) (BufferAccessStrategy strategy, uint32 *buf_state);
typedef int (*InsertFunction) (BufferTag *tag, uint32 hash, int buf_id);

/*
 * A ring of buffers, as server 15 has it. No header of the server has it, so attaching compares it with a ring that the server
 * makes.
 */
typedef struct Ring
{
	BufferAccessStrategyType type;
	int			slots;
	int			at;				/* the slot that served the last request */
	bool		served_itself;	/* with the buffer that it had */
	Buffer		buffers[FLEXIBLE_ARRAY_MEMBER];
} Ring;

static GetFunction original_get;
static InsertFunction original_insert;

/* Calls of one function without any of the other, after which the other one is taken for inlined by the compiler. */
#define CALLS_TO_NOTICE 1000

/* With an inlined function the module would work with half of what it needs, and nothing would show it. */
static void
check_calls(void)
{
	uint64		gets = pg_atomic_read_u64(&ebb_shared->redirected_gets);
	uint64		inserts = pg_atomic_read_u64(&ebb_shared->ring_tail);

	if (likely(gets > 0 && inserts > 0) || Max(gets, inserts) < CALLS_TO_NOTICE ||
		!ebb_works() || !pg_atomic_read_u32(&ebb_shared->enabled))
		return;
	LWLockAcquire(ebb_shared->lock, LW_EXCLUSIVE);
	if (ebb_works())
		ebb_give_up(gets == 0 ? "the server does not call the StrategyGetBuffer that was redirected"
					: "the server does not call the BufTableInsert that was redirected");
	LWLockRelease(ebb_shared->lock);
	ebb_report_failure();
}

static BufferDesc *
take_victim(uint32 *buf_state)
{
	for (int tries = EBB_VICTIM_TRIES; tries > 0; tries--)
	{
		int			buf_id = ebb_victim();
		BufferDesc *buf;
		uint32		state;

		if (buf_id < 0)
			break;
		buf = GetBufferDescriptor(buf_id);
		state = LockBufHdr(buf);
		if (BUF_STATE_GET_REFCOUNT(state) == 0 && BUF_STATE_GET_USAGECOUNT(state) == 0)
		{
			*buf_state = state;
			/* The server does not count it as a buffer that it has given. */
			pg_atomic_fetch_add_u64(&ebb_shared->redirected_victims, 1);
			return buf;
		}
		UnlockBufHdr(buf, state);
	}
	return NULL;
}

/* The slot of a ring that serves the next request. */
static int
next_slot(const Ring *ring)
{
	return ring->at + 1 < ring->slots ? ring->at + 1 : 0;
}

/* True if the server finds a buffer that it may replace in the ring: not one that others have hit. */
static bool
serves_itself(const Ring *ring)
{
	Buffer		buffer = ring->buffers[next_slot(ring)];
	uint32		state;

	if (buffer == InvalidBuffer)
		return false;
	state = pg_atomic_read_u32(&GetBufferDescriptor(buffer - 1)->state);
	return BUF_STATE_GET_REFCOUNT(state) == 0 && BUF_STATE_GET_USAGECOUNT(state) <= 1;
}

/* The next slot of the ring has a buffer from the policy now. */
static void
add_to_ring(Ring *ring, const BufferDesc *buf)
{
	ring->at = next_slot(ring);
	ring->served_itself = false;
	ring->buffers[ring->at] = BufferDescriptorGetBuffer(buf);
}

static BufferDesc *
get_buffer(BufferAccessStrategy strategy, uint32 *buf_state)
{
	Ring	   *ring;
	BufferDesc *buf = NULL;

	if (!ebb_shared)
		return original_get(strategy, buf_state);
	pg_atomic_fetch_add_u64(&ebb_shared->redirected_gets, 1);
	check_calls();
	ebb_drain_long_ring();
	ring = (Ring *) strategy;
	if (ring && ebb_bypasses_ring(ring->type))
		ring = NULL;
	ebb_for_ring = ring != NULL;
	ebb_asked = !ring || !serves_itself(ring);
	if (ebb_asked && !have_free_buffer())
		buf = take_victim(buf_state);
	if (buf && ring)
		add_to_ring(ring, buf);
	return buf ? buf : original_get((BufferAccessStrategy) ring, buf_state);
}

/*
 * The page is in the buffer soon, unless the buffer turns out to be in use. The caller has locks of the table of buffers, so
 * no event is drained here.
 */
static int
insert_tag(BufferTag *tag, uint32 hash, int buf_id)
{
	int			found = original_insert(tag, hash, buf_id);

	if (found < 0 && ebb_shared)
	{
		ebb_ring_put(buf_id, true, tag);
		check_calls();
	}
	return found;
}

#ifdef __x86_64__

/* An instruction that works at any address: `fixed` bytes are compared, the rest of its length is an operand. */
typedef struct Instruction
{
	int			length;
	int			fixed;
	uint8		bytes[3];
} Instruction;

static const Instruction known[] = {
	{1, 1, {0x55}},				/* push %rbp */
	{1, 1, {0x53}},				/* push %rbx */
	{2, 2, {0x41, 0x54}},		/* push %r12 */
	{2, 2, {0x41, 0x55}},		/* push %r13 */
	{2, 2, {0x41, 0x56}},		/* push %r14 */
	{2, 2, {0x41, 0x57}},		/* push %r15 */
	{3, 3, {0x48, 0x89, 0xe5}}, /* mov %rsp,%rbp */
	{3, 3, {0x48, 0x89, 0xfe}}, /* mov %rdi,%rsi */
	{2, 2, {0x89, 0xd3}},		/* mov %edx,%ebx */
	{2, 2, {0x89, 0xf2}},		/* mov %esi,%edx */
	{5, 1, {0xb9}},				/* mov $number,%ecx */
	{4, 3, {0x48, 0x83, 0xec}}, /* sub $number,%rsp */
	{4, 3, {0x48, 0x89, 0x7d}}, /* mov %rdi,number(%rbp) */
	{4, 3, {0x48, 0x89, 0x75}}	/* mov %rsi,number(%rbp) */
};

/* jmp *0(%rip), then the address. */
static const uint8 jump[6] = {0xff, 0x25, 0, 0, 0, 0};
#define JUMP_LENGTH 14

static void
write_jump(uint8 *at, const void *to)
{
	memcpy(at, jump, sizeof jump);
	memcpy(at + sizeof jump, &to, sizeof to);
}

/* The length of the first whole instructions that make room for a jump; 0, and *unknown, if one is not known. */
static int
movable_length(const uint8 *code, int *unknown)
{
	int			length = 0;

	while (length < JUMP_LENGTH)
	{
		int			i;

		for (i = 0; i < lengthof(known); i++)
			if (memcmp(code + length, known[i].bytes, known[i].fixed) == 0)
				break;
		if (i == lengthof(known))
		{
			*unknown = length;
			return 0;
		}
		length += known[i].length;
	}
	return length;
}

static void
refuse(const char *name, const char *why)
{
	ereport(FATAL,
			(errmsg("ebbpool: the function %s of this server cannot be redirected: %s", name, why),
			 errhint("Take ebbpool out of shared_preload_libraries. %s.", EBB_BUILD_A_SERVER)));
}

/* Makes pages of code writable or executable; never both, which some systems forbid. */
static void
protect(const char *name, const uint8 *code, int length, int protection)
{
	uintptr_t	page_size = sysconf(_SC_PAGESIZE);
	uintptr_t	first = (uintptr_t) code / page_size * page_size;
	uintptr_t	end = ((uintptr_t) code + length + page_size - 1) / page_size * page_size;

	if (mprotect((void *) first, end - first, protection) != 0)
		refuse(name, strerror(errno));
}

/* Makes `function` jump to `instead`. Returns its beginning at another place, which goes on to the rest. */
static void *
redirect(const char *name, void *function, void *instead)
{
	uint8	   *code = function;
	int			unknown = 0;
	int			length = movable_length(code, &unknown);
	uint8	   *copy;

	if (length == 0)
		refuse(name, psprintf("byte %d of its code, %02x %02x %02x, begins an instruction that is not known", unknown,
							  code[unknown], code[unknown + 1], code[unknown + 2]));
	copy = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		refuse(name, strerror(errno));
	memcpy(copy, code, length);
	write_jump(copy + length, code + length);
	protect(name, copy, length + JUMP_LENGTH, PROT_READ | PROT_EXEC);
	protect(name, code, JUMP_LENGTH, PROT_READ | PROT_WRITE);
	write_jump(code, instead);
	protect(name, code, JUMP_LENGTH, PROT_READ | PROT_EXEC);
	return copy;
}

/* The module knows the server that it was built for, down to the minor version. */
static void
check_version(void)
{
	const char *version = GetConfigOption("server_version_num", false, false);

	if (atoi(version) != PG_VERSION_NUM)
		ereport(FATAL,
				(errmsg("ebbpool: the module was built for version %d of the server, and this is %s", PG_VERSION_NUM, version),
				 errhint("Build it again with \"postgres/build module\", or take ebbpool out of shared_preload_libraries.")));
}

/* A ring of the server has the fields that the module has them in. */
static void
check_ring(void)
{
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	const Ring *ring = (const Ring *) strategy;

	if (ring && (ring->type != BAS_BULKREAD || ring->slots != Min(NBuffers / 8, 256 * 1024 / BLCKSZ) || ring->at != 0 ||
				 ring->served_itself || ring->buffers[0] != InvalidBuffer))
		refuse("StrategyGetBuffer", "its rings of buffers are others");
	if (strategy)
		FreeAccessStrategy(strategy);
}

void
ebb_attach_redirect(void)
{
	check_version();
	check_ring();
	original_insert = (InsertFunction) redirect("BufTableInsert", BufTableInsert, insert_tag);
	original_get = (GetFunction) redirect("StrategyGetBuffer", StrategyGetBuffer, get_buffer);
	ereport(LOG,
			(errmsg("ebbpool: two functions of the server are redirected; this is for trials"),
			 errhint("Set bgwriter_lru_maxpages = 0: the background writer follows the clock hand, which stands still.")));
}

#else							/* !__x86_64__ */

void
ebb_attach_redirect(void)
{
	ereport(FATAL,
			(errmsg("ebbpool: ebbpool.attach = redirect works on x86-64 only"),
			 errhint("%s.", EBB_BUILD_A_SERVER)));
}

#endif

#else							/* !EBB_CAN_REDIRECT */

void
ebb_attach_redirect(void)
{
	ereport(FATAL,
			(errmsg("ebbpool: ebbpool.attach = redirect works on servers of version 15 only, and this is %s", PG_VERSION),
			 errhint("%s.", EBB_BUILD_A_SERVER)));
}

#endif
