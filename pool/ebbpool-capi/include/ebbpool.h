// The interface of libebbpool: a buffer pool, and replacement policies for a buffer manager of your own. docs/c.md
// explains it. cbindgen writes this file from pool/ebbpool-capi/src.
//
// Every function that returns an ebbpool_status returns EBBPOOL_OK or the kind of an error; then ebbpool_error_message has a
// text. Strings are UTF-8. No function lets a panic of the library out.
//
// Pointers. Null pointers, misaligned pointers, text that is not UTF-8 and numbers out of range are errors
// (EBBPOOL_INVALID), except where a function allows null. Every other pointer must be that of an object which C, too, may
// read or write: a live object of the type, text that ends with a NUL, or a handle that is not destroyed.
//
// Structs that begin with struct_size grow in later versions. Set all bytes to 0, then struct_size to sizeof; a field that
// is 0 has its default.
//
// Threads. Any number of threads may use a pool. One thread at a time uses a policy.

#ifndef EBBPOOL_H
#define EBBPOOL_H

#include <stddef.h>
#include <stdint.h>

// The version of the interface of this header. It goes up with each addition. A library serves every program that was
// compiled with a header of its own version or of an earlier one with the same name of the library (`libebbpool.so.0`).
#define EBBPOOL_ABI_VERSION 1

// All bytes of a page belong to the program, and the pool does not find damage. Without this flag the first 32 bytes of
// each page in storage are the pool's: checksum, number and LSN.
#define EBBPOOL_RAW_PAGES 1

// The pool has no threads of its own, and works only in those of its callers.
#define EBBPOOL_NO_BACKGROUND 2

// Every hit is reported to the policy, even if the policy does not need it: then a pool decides as the simulator does.
#define EBBPOOL_EXACT_HITS 4

// Fixes do not wait while too many pages are dirty; the program calls `ebbpool_pool_throttle` where it has fixed no page.
#define EBBPOOL_NO_THROTTLE 8

// The pool reads no pages ahead of sequential fixes.
#define EBBPOOL_NO_READ_AHEAD 16

// The file is created if it does not exist.
#define EBBPOOL_FILE_CREATE 1

// The file is opened only for reading.
#define EBBPOOL_FILE_READ_ONLY 2

// I/O goes through the page cache of the kernel. Without this flag it does not, if file system and page size allow it.
#define EBBPOOL_FILE_BUFFERED 4

// Threads transfer the pages. Without this flag io_uring does, where the kernel has it and allows its use.
#define EBBPOOL_FILE_THREADS 8

// The page is fixed, or referenced, for reading. Many threads may have it fixed so.
#define EBBPOOL_READ 0

// The page is fixed, or referenced, for writing, and dirty from then on. One thread at a time has it fixed so.
#define EBBPOOL_WRITE 1

// The page is fixed, or referenced, for writing, filled with zeros instead of being read, and dirty from then on.
#define EBBPOOL_NEW 2

// The policy needs every hit. Without this bit `ebbpool_policy_hit` may be left out for all but a page's first hit and its
// first write in each epoch of one miss for every 32 frames, and every write to a clean page.
#define EBBPOOL_POLICY_EVERY_HIT 1

// The costs of a read and a write change the policy's choices.
#define EBBPOOL_POLICY_COSTS 2

// The policy uses classes of pages.
#define EBBPOOL_POLICY_CLASSES 4

// `ebbpool_policy_dirty_ranking` works for the policy.
#define EBBPOOL_POLICY_RANKS_DIRTY 8

// A policy for the frames of a buffer manager of the program, which has the page table, does the I/O, and notifies the
// policy. One thread at a time uses it: the program calls it under a lock of its own, and a second thread gets
// `EBBPOOL_BUSY`.
typedef struct ebbpool_policy ebbpool_policy;

// A pool. Functions take a pointer to it; any number of threads may use it at the same time.
typedef struct ebbpool_pool ebbpool_pool;

// A scan over many pages, whose pages take few frames. One thread at a time uses it.
typedef struct ebbpool_scan ebbpool_scan;

// The result of a call: `EBBPOOL_OK` or the kind of an error.
typedef int32_t ebbpool_status;

// A fixed page. It has the same fields in all versions of the interface.
typedef struct ebbpool_page {
    // What `ebbpool_pool_unfix` takes; never 0.
    uint64_t token;
    // The page's number.
    uint64_t number;
    // The LSN of its latest change; 0 if it has none.
    uint64_t lsn;
    // The bytes of the page that belong to the program, until the page is unfixed. Bytes of a page that is fixed for
    // reading must not be changed.
    uint8_t *data;
    // The number of these bytes: the page size less 32 bytes, or all with `EBBPOOL_RAW_PAGES`.
    size_t length;
} ebbpool_page;

// What is to be evicted. It has the same fields in all versions of the interface. The lists are valid until the next call
// for the policy.
typedef struct ebbpool_eviction {
    // The frame to evict: write its page if it is dirty, then call `ebbpool_policy_evicted`.
    uint32_t frame;
    // The number of frames in `together`.
    uint32_t together_count;
    // The number of frames in `also_evicted`.
    uint32_t also_evicted_count;
    // Not 0: if any of the pages to evict is dirty, the policy expects that its block of this number of pages is written
    // whole (BPLRU's page padding). A program may write the dirty pages only.
    uint32_t block_pages;
    // Dirty pages that are best written together with the victim, and stay: write them before the victim is evicted, and
    // call `ebbpool_policy_cleaned` for each. A program may ignore them.
    const uint32_t *together;
    // Frames to evict as the victim, and after it. A program may ignore them.
    const uint32_t *also_evicted;
} ebbpool_eviction;

// The options of a file of pages. Set `struct_size`; a field that is 0 has its default.
typedef struct ebbpool_file_options {
    // `sizeof(ebbpool_file_options)`.
    size_t struct_size;
    // `EBBPOOL_FILE_CREATE` and others, added up.
    uint64_t flags;
    // Bytes of a page: a power of two from 512 to 2^30; 0 for 4096.
    uint64_t page_size;
    // The number of operations that are under way at the same time, 1 to 4096; 0 for 32.
    uint64_t queue_depth;
} ebbpool_file_options;

// The write-ahead log of the program: no page is written before the log is durable up to the page's LSN. The pool calls the
// functions from several threads at the same time, also from threads of its own, with `context` as the first argument. They
// must not throw, nor jump out, nor call functions of the same pool. An LSN is a position in the log; later changes have
// larger ones, and 0 stands for none.
typedef struct ebbpool_log {
    // `sizeof(ebbpool_log)`.
    size_t struct_size;
    // The first argument of each function.
    void *context;
    // The LSN up to which all changes, inclusive, survive a crash.
    uint64_t (*durable_lsn)(void *context);
    // Makes all changes up to `lsn`, inclusive, survive a crash. Returns 0, or an error number that is not 0: then the
    // page is not written, and stays dirty.
    int32_t (*flush_to)(void *context,
                        uint64_t lsn);
    // The LSN of the latest change so far, durable or not. A checkpoint begins there.
    uint64_t (*end_lsn)(void *context);
    // Called once when the pool no longer uses the log, unless opening fails. May be null.
    void (*release)(void *context);
} ebbpool_log;

// The options of a pool. Set `struct_size`, and `frames` or `memory_bytes`; a field that is 0 has its default. Texts and
// structs behind pointers are used only until the call returns.
typedef struct ebbpool_pool_options {
    // `sizeof(ebbpool_pool_options)`.
    size_t struct_size;
    // `EBBPOOL_RAW_PAGES` and others, added up.
    uint64_t flags;
    // The number of frames, each for one page.
    uint64_t frames;
    // The memory for pages, in bytes, in place of `frames`.
    uint64_t memory_bytes;
    // The replacement policy with its parameters, such as `cflru:window=0.3`; null for `ebb`.
    const char *policy;
    // What a page read costs, in µs. With both costs 0 the pool measures them; only their ratio matters to most policies.
    double read_cost;
    // What a page write costs, in µs.
    double write_cost;
    // The write-ahead log; null for none.
    const struct ebbpool_log *log;
    // The file of a double-write area, which restores torn pages; null for none. It is created if it does not exist.
    const char *double_write_path;
    // A number that identifies the data, which the double-write area stores; 0 for none.
    uint64_t identity;
    // How long a fix waits for a latch or a frame, in ms; 0 for 10 s.
    uint64_t patience_ms;
    // The background writer writes a page that has been dirty for this long, in ms; 0 for never.
    uint64_t max_dirty_age_ms;
    // The share of the frames that may be dirty before the pool writes pages in the background and delays fixes that make
    // more pages dirty, from 0 to 1; 0 for the default, 0.8 or less in small pools.
    double dirty_budget;
    // The longest such delay, in µs; 0 for 20 ms. Only with a `dirty_budget`.
    uint64_t most_delay_us;
    // The number of next victims that the background writer keeps clean; 0 for 1/64 of the frames, from 1 to 64.
    uint64_t clean_reserve;
    // The most pages in one write to the storage; 0 for 64.
    uint64_t batch;
    // Pages with numbers below this are found without hashing, which takes 4 bytes of memory for each.
    uint64_t dense_pages;
    // The most pages of the storage: page numbers from there on are refused; 0 for all numbers.
    uint64_t most_pages;
    // Called for each fix, one at a time, with the page's number, `EBBPOOL_READ` or `EBBPOOL_WRITE`, and its class: for a trace of
    // the program. It slows fixes down. It must not throw, nor jump out, nor call functions of the same pool. Null for none.
    void (*on_fix)(void *context,
                   uint64_t number,
                   uint32_t mode,
                   uint32_t page_class);
    // The first argument of `on_fix`.
    void *on_fix_context;
    // Lets `ebbpool_pool_resize` change the number of frames, up to this one; 0 if it stays.
    uint64_t most_frames;
} ebbpool_pool_options;

// A storage of the program, as a sequence of bytes. The pool calls the functions from several threads at the same time,
// also from threads of its own, with `context` as the first argument; it never requests a page twice at the same time,
// except for reading. They return 0, or an error number that is not 0, such as `EIO`, which `ebbpool_error_os_code` then
// returns to the program. They must not throw, nor jump out, nor call functions of the same pool. If `write_at`, `sync` and
// `set_length` are all null, the storage is for reading only.
typedef struct ebbpool_storage {
    // `sizeof(ebbpool_storage)`.
    size_t struct_size;
    // The first argument of each function.
    void *context;
    // Bytes of a page: a power of two from 64 to 2^30; 0 for 4096.
    uint64_t page_size;
    // Reads `length` bytes from `offset` on, which are within the length that `length` returned or `set_length` set.
    int32_t (*read_at)(void *context,
                       void *buffer,
                       size_t length,
                       uint64_t offset);
    // Writes `length` bytes from `offset` on, also within the length.
    int32_t (*write_at)(void *context,
                        const void *buffer,
                        size_t length,
                        uint64_t offset);
    // Returns when everything written so far survives a crash. After an error the pool writes no more.
    int32_t (*sync)(void *context);
    // Stores the length of the storage, in bytes. The pool calls it once, when it is opened.
    int32_t (*length)(void *context,
                      uint64_t *bytes);
    // Makes the storage `bytes` long, which is longer than before. New bytes read as zeros.
    int32_t (*set_length)(void *context,
                          uint64_t bytes);
    // Called once when the pool no longer uses the storage, unless opening fails. May be null.
    void (*release)(void *context);
} ebbpool_storage;

// What a pool has done since it was opened. Set `struct_size` before the call.
typedef struct ebbpool_stats {
    // `sizeof(ebbpool_stats)`.
    size_t struct_size;
    // Bytes of a page in storage.
    uint64_t page_size;
    // Bytes of a page that belong to the program.
    uint64_t payload_size;
    // Pages of the storage.
    uint64_t pages;
    // Frames of the pool.
    uint64_t frames;
    // Frames that have a page.
    uint64_t resident;
    // Frames whose page is dirty.
    uint64_t dirty;
    // Pages that are fixed by functions of this library, each as often as it is fixed.
    uint64_t fixed;
    // Fixes of resident pages.
    uint64_t hits;
    // Fixes of pages that were not resident.
    uint64_t misses;
    // Pages read, for all causes.
    uint64_t pages_read;
    // Pages read because they were fixed.
    uint64_t read_for_misses;
    // Pages read ahead of sequential fixes.
    uint64_t read_ahead;
    // Pages written, for all causes.
    uint64_t pages_written;
    // Pages written because they were evicted, or together with such a page.
    uint64_t written_for_evictions;
    // Pages written by checkpoints.
    uint64_t written_by_checkpoints;
    // Pages written in the background.
    uint64_t written_in_background;
    // Pages that were flushed.
    uint64_t flushed;
    // Pages written to the double-write area.
    uint64_t double_write_pages;
    // Calls of the storage that wrote.
    uint64_t write_calls;
    // Syncs of the storage.
    uint64_t syncs;
    // How often the log had to be made durable because a page was to be written.
    uint64_t log_flushes;
    // Pages that could not be read, or were damaged.
    uint64_t failed_reads;
    // Pages that could not be written.
    uint64_t failed_writes;
    // Fixes that waited for a latch.
    uint64_t waits_for_latches;
    // Misses that waited for a dirty page to be written.
    uint64_t waits_for_writes;
    // Misses that waited because all frames were fixed.
    uint64_t waits_for_frames;
    // Fixes that waited because too many pages were dirty.
    uint64_t delays;
    // The total time of these delays, in µs.
    uint64_t delayed_us;
    // 1 if a sync has failed and the pool only reads; 0 otherwise.
    uint64_t sync_failed;
    // What a page read costs, as the policy knows it, in µs.
    double read_cost;
    // What a page write costs, as the policy knows it, in µs.
    double write_cost;
} ebbpool_stats;

// The call succeeded.
#define EBBPOOL_OK 0

// An argument makes no sense: a null or misaligned pointer, text that is not UTF-8, an option out of range, a call out of
// order. Nothing has changed.
#define EBBPOOL_INVALID 1

// There is no such policy, no such device, or no such file.
#define EBBPOOL_NOT_FOUND 2

// Another call has what this one needs: a page is latched for longer than the pool's patience, pages are fixed while
// the pool is to be closed, a file is open already, or two threads use one policy.
#define EBBPOOL_BUSY 3

// Every frame was fixed for as long as the pool's patience, or the policy may evict no frame.
#define EBBPOOL_ALL_FIXED 4

// No page is fixed under this token: it was unfixed before, or never fixed in this pool.
#define EBBPOOL_NOT_FIXED 5

// The storage failed; `ebbpool_error_os_code` has the system's number, or that of the callback.
#define EBBPOOL_IO 6

// The log could not be made durable, and the page was not written; `ebbpool_error_os_code` has the callback's number.
#define EBBPOOL_LOG 7

// A sync failed earlier, and since then the pool only reads: reopen it, and recover from the log.
#define EBBPOOL_SYNC_FAILED 8

// A page in storage is not what was written.
#define EBBPOOL_DAMAGED 9

// A page was being changed when a thread panicked: discard it, and redo its changes.
#define EBBPOOL_ABANDONED 10

// There is no memory for the frames.
#define EBBPOOL_NO_MEMORY 11

// The program was compiled for a later version of the library.
#define EBBPOOL_VERSION 12

// The pool is closed.
#define EBBPOOL_CLOSED 13

// The library has a fault: a function panicked. The pool or the policy that it was called for is unusable from then on,
// except for being destroyed.
#define EBBPOOL_PANIC 14

// The storage is for reading only, and no page can be fixed for writing.
#define EBBPOOL_READ_ONLY 15

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the interface that the library has, to be compared with `EBBPOOL_ABI_VERSION` of the header.
uint32_t ebbpool_abi_version(void);

// `EBBPOOL_OK` if the library serves programs that were compiled with a header of this version; `EBBPOOL_VERSION` if not.
// Call it first, with `EBBPOOL_ABI_VERSION`.
ebbpool_status ebbpool_check_abi(uint32_t header_version);

// The version of Ebbpool as text, such as `0.1.0`. It is valid for as long as the library is loaded.
const char *ebbpool_version(void);

// The pages in `count` frames were referenced in this order, as by `ebbpool_policy_hit` for each. `accesses` has an
// `EBBPOOL_READ` or `EBBPOOL_WRITE` for each frame, or is null if all are reads. A frame may be there several times.
//
// Errors: as `ebbpool_policy_hit`; then the policy has learned of none of them.
ebbpool_status ebbpool_policy_hits(struct ebbpool_policy *policy,
                                   const uint32_t *frames,
                                   const uint32_t *accesses,
                                   size_t count);

// Chooses the next `count` frames to evict at once, each as `ebbpool_policy_victim` does if those before it are fixed, and
// stores them into `frames` and their number into `named`: fewer if no more frames may be evicted. Each remains the policy's
// until `ebbpool_policy_evicted` or `ebbpool_policy_dropped` is called, and a later call may name it again: `may_evict`
// returns 0 for those that wait. Without a miss, too, the search is that for an eviction, and uses up second chances. What a
// policy would write or evict with the victims is left out. Most policies pass over the same fixed frames for each of the
// `count`: where nearly all are fixed, ask for few.
//
// Errors: `EBBPOOL_ALL_FIXED` if it names none of at least one; `EBBPOOL_INVALID` if no frame has a page.
ebbpool_status ebbpool_policy_victims(struct ebbpool_policy *policy,
                                      int32_t (*may_evict)(void *context,
                                                           uint32_t frame),
                                      void *context,
                                      size_t count,
                                      uint32_t *frames,
                                      size_t *named);

// Of the next `count` victims, as the policy foresees them now, it stores those with dirty pages into `frames`, the first one
// first, and their number into `named`: for a cleaner that writes in advance. It changes nothing: the frames stay candidates,
// and the policy later evicts what it would have evicted without the call. `may_evict` is as for `ebbpool_policy_victim`.
//
// Errors: `EBBPOOL_INVALID` for a policy without `EBBPOOL_POLICY_RANKS_DIRTY`.
ebbpool_status ebbpool_policy_dirty_ranking(struct ebbpool_policy *policy,
                                            int32_t (*may_evict)(void *context,
                                                                 uint32_t frame),
                                            void *context,
                                            size_t count,
                                            uint32_t *frames,
                                            size_t *named);

// Stores what a write of a page of `page_bytes` bytes costs on a device, in reads of such a page: what
// `ebbpool_policy_costs` takes for a write where a read costs 1. `device` is a name that `ebbpool devices` lists, or the path
// of a profile, which ends with `.toml` or has a `/`. 0 bytes are a page of the device.
//
// Errors: `EBBPOOL_NOT_FOUND` if no profile has this name; `EBBPOOL_IO` if the file cannot be read; `EBBPOOL_INVALID` if it is
// no profile.
ebbpool_status ebbpool_device_asymmetry(const char *device,
                                        uint64_t page_bytes,
                                        double *asymmetry);

// The text of the last call of this thread that failed, in UTF-8; empty if none has failed. It is valid until the thread's
// next call that fails.
const char *ebbpool_error_message(void);

// The number of the operating system's error (`errno`), or the number that a callback returned, behind the last call of
// this thread that failed; 0 if there is none.
int32_t ebbpool_error_os_code(void);

// The name of a status, such as `EBBPOOL_BUSY`; `EBBPOOL_UNKNOWN` for a number that is none. It is valid for as long as
// the library is loaded.
const char *ebbpool_status_name(ebbpool_status status);

// Fixes page `number` in a frame, and stores where its bytes are into `page`. It is read from storage if it is not
// resident; a page that was never written reads as zeros. `mode` is `EBBPOOL_READ`, `EBBPOOL_WRITE` or `EBBPOOL_NEW`,
// `page_class` a kind of pages that are used alike (0: unknown), which a policy may use.
//
// Errors: `EBBPOOL_IO` and `EBBPOOL_DAMAGED` if it cannot be read, `EBBPOOL_IO`, `EBBPOOL_LOG` and `EBBPOOL_SYNC_FAILED`
// if its victim cannot be written, `EBBPOOL_ALL_FIXED` and `EBBPOOL_BUSY` after waiting, `EBBPOOL_ABANDONED`,
// `EBBPOOL_READ_ONLY`.
ebbpool_status ebbpool_pool_fix(struct ebbpool_pool *pool,
                                uint64_t number,
                                uint32_t mode,
                                uint32_t page_class,
                                struct ebbpool_page *page);

// Fixes a page, as `ebbpool_pool_fix` does, and waits no longer than this for other threads, in ms, whatever the patience of the
// pool. With 0 it waits for none, but still reads the page from storage.
//
// Errors: as `ebbpool_pool_fix`.
ebbpool_status ebbpool_pool_fix_within(struct ebbpool_pool *pool,
                                       uint64_t number,
                                       uint32_t mode,
                                       uint32_t page_class,
                                       uint64_t patience_ms,
                                       struct ebbpool_page *page);

// Fixes a page, `EBBPOOL_READ` or `EBBPOOL_WRITE`, if that takes neither a wait nor a read from storage.
//
// Errors: `EBBPOOL_BUSY` if it does; `EBBPOOL_ABANDONED`, `EBBPOOL_READ_ONLY`, `EBBPOOL_SYNC_FAILED`.
ebbpool_status ebbpool_pool_try_fix(struct ebbpool_pool *pool,
                                    uint64_t number,
                                    uint32_t mode,
                                    struct ebbpool_page *page);

// Allocates a page: fixes one that is not in use for writing, filled with zeros. It is the freed page with the smallest
// number, or, if no page is free, the one after the last page that the storage has. The storage grows with it.
//
// Errors: as `ebbpool_pool_fix`, and `EBBPOOL_IO` if the storage is full.
ebbpool_status ebbpool_pool_allocate(struct ebbpool_pool *pool,
                                     uint32_t page_class,
                                     struct ebbpool_page *page);

// Unfixes the page of a token; any thread may do so. Its bytes must not be used after that. `lsn` is the position in the
// log of the change that was made, which has to be appended before; 0 if there is no log, or nothing was changed.
//
// Errors: `EBBPOOL_NOT_FIXED` if the token was unfixed before; `EBBPOOL_INVALID` for an LSN of a page that is fixed for
// reading, which stays fixed.
ebbpool_status ebbpool_pool_unfix(struct ebbpool_pool *pool,
                                  uint64_t token,
                                  uint64_t lsn);

// Sets the LSN of a page that is fixed for writing and stays so, for a program that makes several changes.
//
// Errors: `EBBPOOL_NOT_FIXED`, `EBBPOOL_INVALID` if the page is fixed for reading.
ebbpool_status ebbpool_pool_set_lsn(struct ebbpool_pool *pool,
                                    uint64_t token,
                                    uint64_t lsn);

// Confirms that the program has redone, from its log, all changes of this page that `ebbpool_pool_discard` lost.
// Checkpoints cover them again once they are in storage. The page is fixed for writing and stays so.
//
// Errors: as `ebbpool_pool_set_lsn`.
ebbpool_status ebbpool_pool_redone(struct ebbpool_pool *pool,
                                   uint64_t token);

// Lets other threads read a page that this one has fixed for writing. It is fixed for reading from then on, under the
// same token.
//
// Errors: as `ebbpool_pool_set_lsn`.
ebbpool_status ebbpool_pool_downgrade(struct ebbpool_pool *pool,
                                      uint64_t token);

// Fixes for writing a page that is fixed for reading, under the same token, if it is fixed nowhere else. No other thread changes it
// in between. It never waits: of two threads that try this for one page, at most one succeeds, and the other one has to unfix it.
//
// Errors: `EBBPOOL_BUSY`, `EBBPOOL_READ_ONLY`, `EBBPOOL_SYNC_FAILED`: the page stays fixed for reading. `EBBPOOL_NOT_FIXED`,
// `EBBPOOL_INVALID` if it is fixed for writing.
ebbpool_status ebbpool_pool_upgrade(struct ebbpool_pool *pool,
                                    uint64_t token);

// Makes a policy for frames 0 to `frames` - 1, all empty. `spec` names it with its parameters, such as `ebb` or
// `cflru:window=0.3`: any online policy of `ebbpool policies` that needs no erase counts, and no parameters that ask for
// checkpoints or commits. Stores the policy, or null after an error.
//
// Errors: `EBBPOOL_NOT_FOUND`, `EBBPOOL_INVALID`, `EBBPOOL_NO_MEMORY`.
ebbpool_status ebbpool_policy_new(const char *spec,
                                  uint32_t frames,
                                  struct ebbpool_policy **policy);

// Releases the policy, which must not be used after that. A null pointer has no effect, nor has a policy in a region.
//
// Errors: `EBBPOOL_BUSY` while another call uses the policy; then it is not released.
ebbpool_status ebbpool_policy_destroy(struct ebbpool_policy *policy);

// Writes the policy's name with its parameters into a buffer, as `ebbpool_pool_describe` does, and, unless `properties` is
// null, `EBBPOOL_POLICY_EVERY_HIT` and others, added up.
ebbpool_status ebbpool_policy_describe(struct ebbpool_policy *policy,
                                       char *buffer,
                                       size_t capacity,
                                       size_t *length,
                                       uint32_t *properties);

// The page in `frame` was referenced: `EBBPOOL_READ`, or `EBBPOOL_WRITE`, which makes it dirty.
//
// Errors: `EBBPOOL_INVALID` if the frame is empty, or between a miss and its admission.
ebbpool_status ebbpool_policy_hit(struct ebbpool_policy *policy,
                                  uint32_t frame,
                                  uint32_t access);

// The page in `frame` was written without being referenced, for example under the fix that admitted it, and is dirty from
// then on. A policy that distinguishes this, such as `ebb`, notes the write and its time and no reference; to others
// that look at writes it is a hit that writes.
//
// Errors: as `ebbpool_policy_hit`.
ebbpool_status ebbpool_policy_wrote(struct ebbpool_policy *policy,
                                    uint32_t frame);

// The program left out this number of hits since the last call; for policies without `EBBPOOL_POLICY_EVERY_HIT`.
ebbpool_status ebbpool_policy_hits_left_out(struct ebbpool_policy *policy,
                                            uint64_t hits);

// A page that is not resident was referenced. `page_class` is a kind of pages that are used alike, 0 for unknown. Into
// `evict_first` it stores 1 if a page is to be evicted before, because no frame is empty, or because the policy replaces a
// page though one is: call `ebbpool_policy_victim` then. Otherwise it stores 0. End the miss with `ebbpool_policy_admit`
// or `ebbpool_policy_refuse`.
//
// Errors: `EBBPOOL_INVALID` between a miss and its admission.
ebbpool_status ebbpool_policy_miss(struct ebbpool_policy *policy,
                                   uint64_t number,
                                   uint32_t page_class,
                                   uint32_t access,
                                   int32_t *evict_first);

// Chooses the frame to evict for the page that was missed, or, without a miss, the one that would be evicted next, to be
// written in advance. `may_evict` returns 0 for a frame that is fixed; it is called with `context`, must not call
// functions of this policy, must return (a `longjmp` out of it leaves the policy busy for ever), and may be null if no frame is
// fixed. `most_together` is the most pages that the program writes in one go. The frame remains the policy's until `ebbpool_policy_evicted` is called; the program may evict
// another one instead.
//
// Errors: `EBBPOOL_ALL_FIXED` if every frame is fixed: then call `ebbpool_policy_refuse`, or
// `ebbpool_policy_admit` if a frame is empty; `EBBPOOL_INVALID` if no frame has a page.
ebbpool_status ebbpool_policy_victim(struct ebbpool_policy *policy,
                                     int32_t (*may_evict)(void *context,
                                                          uint32_t frame),
                                     void *context,
                                     uint32_t most_together,
                                     struct ebbpool_eviction *plan);

// The page in `frame` was evicted, after it was written if it was dirty; the frame is empty. The policy may remember it.
//
// Errors: `EBBPOOL_INVALID` if the frame is empty already.
ebbpool_status ebbpool_policy_evicted(struct ebbpool_policy *policy,
                                      uint32_t frame);

// The page in `frame` no longer exists, for example because its table was dropped; the frame is empty. The policy forgets
// the page.
//
// Errors: as `ebbpool_policy_evicted`.
ebbpool_status ebbpool_policy_dropped(struct ebbpool_policy *policy,
                                      uint32_t frame);

// The dirty page in `frame` was written and stays. It has no effect on a clean page.
//
// Errors: `EBBPOOL_INVALID` if the frame is empty.
ebbpool_status ebbpool_policy_cleaned(struct ebbpool_policy *policy,
                                      uint32_t frame);

// The page that was missed is in `frame` now, which was empty.
//
// Errors: `EBBPOOL_INVALID` if no page was missed, or the frame is not empty.
ebbpool_status ebbpool_policy_admit(struct ebbpool_policy *policy,
                                    uint32_t frame);

// The page that was missed is not admitted, because every frame is fixed.
//
// Errors: `EBBPOOL_INVALID` if no page was missed, or a frame was empty.
ebbpool_status ebbpool_policy_refuse(struct ebbpool_policy *policy);

// What a page read and a page write cost now, in µs; a read costs more than 0. Without a call a policy assumes that they
// cost the same, or what its parameters say.
//
// Errors: `EBBPOOL_INVALID`.
ebbpool_status ebbpool_policy_costs(struct ebbpool_policy *policy,
                                    double read_cost,
                                    double write_cost);

// Writes the name of the policy that chooses victims now, of several that compete, with its NUL into `buffer`, cut off where
// that ends: "ebb" or "lru" in the duel of ebb; "" where none compete.
//
// Errors: `EBBPOOL_INVALID`.
ebbpool_status ebbpool_policy_leader(const struct ebbpool_policy *policy,
                                     char *buffer,
                                     size_t capacity);

// Opens a pool over a file or a block device, which is locked until the pool is closed or destroyed. `file` may be null
// for the defaults. Stores the pool, or null after an error.
//
// Errors: `EBBPOOL_NOT_FOUND` if there is no such file or no such policy, `EBBPOOL_BUSY` if the file is open already,
// `EBBPOOL_INVALID` and `EBBPOOL_VERSION` for options, `EBBPOOL_NO_MEMORY`, `EBBPOOL_IO`.
ebbpool_status ebbpool_pool_open_file(const char *path,
                                      const struct ebbpool_file_options *file,
                                      const struct ebbpool_pool_options *options,
                                      struct ebbpool_pool **pool);

// Opens a pool over a storage of the program. Stores the pool, or null after an error; then `release` is not called.
//
// Errors: as `ebbpool_pool_open_file`, and `EBBPOOL_IO` with the number that `length` returned.
ebbpool_status ebbpool_pool_open_callbacks(const struct ebbpool_storage *storage,
                                           const struct ebbpool_pool_options *options,
                                           struct ebbpool_pool **pool);

// Opens a pool over pages in memory, which are lost when it is closed or destroyed: for tests, and for data that need
// not survive. `page_size` is a power of two from 64 to 2^30.
//
// Errors: as `ebbpool_pool_open_file`.
ebbpool_status ebbpool_pool_open_memory(uint64_t page_size,
                                        const struct ebbpool_pool_options *options,
                                        struct ebbpool_pool **pool);

// Writes all dirty pages, syncs, and ends the pool: its memory, its threads and its storage. Each later call for it returns
// `EBBPOOL_CLOSED`, until `ebbpool_pool_destroy` releases the handle. After an error the pool is open as before.
//
// Errors: `EBBPOOL_BUSY` while a page is fixed or another call uses the pool; otherwise as `ebbpool_pool_checkpoint`.
ebbpool_status ebbpool_pool_close(struct ebbpool_pool *pool);

// Releases the handle, which must not be used after that. A pool that is not closed is ended without writing: changes
// in dirty pages are lost unless the log has them. Pages that are fixed are unfixed. A null pointer has no effect.
//
// Errors: `EBBPOOL_BUSY` while another call uses the pool; then the handle is not released.
ebbpool_status ebbpool_pool_destroy(struct ebbpool_pool *pool);

// Frees a page whose content does not matter any more: it is not written, and `ebbpool_pool_allocate` returns it again.
// The pool does not store which pages are free.
//
// Errors: `EBBPOOL_BUSY` if the page is fixed.
ebbpool_status ebbpool_pool_free(struct ebbpool_pool *pool,
                                 uint64_t number);

// Discards a page's content in memory, so that the next fix reads it from storage. Changes that were not written are
// lost: redo them from the log, and call `ebbpool_pool_redone`.
//
// Errors: `EBBPOOL_BUSY` if the page is fixed.
ebbpool_status ebbpool_pool_discard(struct ebbpool_pool *pool,
                                    uint64_t number);

// Writes a page, if it is dirty, and returns when its content survives a crash.
//
// Errors: `EBBPOOL_IO`, `EBBPOOL_LOG`, `EBBPOOL_SYNC_FAILED`, `EBBPOOL_BUSY`, `EBBPOOL_ABANDONED`. The page stays dirty.
ebbpool_status ebbpool_pool_flush(struct ebbpool_pool *pool,
                                  uint64_t number);

// Changes the number of frames while other threads use the pool, which was opened with `most_frames`. Of fewer frames the policy's
// next victims are evicted, and the memory of the others is given back to the system.
//
// Errors: `EBBPOOL_INVALID` for a number that the pool cannot have; `EBBPOOL_BUSY` if pages were fixed for the pool's patience;
// as `ebbpool_pool_flush` if a victim cannot be written. The pool has as many frames as before then.
ebbpool_status ebbpool_pool_resize(struct ebbpool_pool *pool,
                                   uint64_t frames);

// Writes all pages that are dirty now, and returns when their content survives a crash. Other threads go on meanwhile.
// Into `covered_lsn`, unless it is null, it stores the LSN up to which recovery needs no log: 2^64 - 1 without a log, and 0
// if a page could not be written.
//
// Errors: as `ebbpool_pool_flush`; pages that could not be written stay dirty.
ebbpool_status ebbpool_pool_checkpoint(struct ebbpool_pool *pool,
                                       uint64_t *covered_lsn);

// Makes the storage at least `pages` pages long; `ebbpool_pool_allocate` goes on after these. For recovery: a crash may
// take back that the storage has grown.
//
// Errors: `EBBPOOL_IO` if the storage is full.
ebbpool_status ebbpool_pool_grow(struct ebbpool_pool *pool,
                                 uint64_t pages);

// Delays the caller while too many pages are dirty; for a pool with `EBBPOOL_NO_THROTTLE`.
ebbpool_status ebbpool_pool_throttle(struct ebbpool_pool *pool);

// Writes a description of the storage and a table of all figures into a buffer of `capacity` bytes, as text in UTF-8 that
// ends with a NUL and is cut off where the buffer ends. Into `length`, unless it is null, it stores the length of the
// whole text in bytes without the NUL. `buffer` may be null if `capacity` is 0.
ebbpool_status ebbpool_pool_describe(struct ebbpool_pool *pool,
                                     char *buffer,
                                     size_t capacity,
                                     size_t *length);

// Begins a scan, and stores it.
ebbpool_status ebbpool_scan_new(struct ebbpool_scan **scan);

// Releases a scan, which must not be used after that. A null pointer has no effect.
ebbpool_status ebbpool_scan_destroy(struct ebbpool_scan *scan);

// Fixes a page for reading, as `ebbpool_pool_fix` does, that will probably not be used again soon. A scan takes 32 frames, or an
// eighth of them, over and over, so that it does not evict the pages of others.
//
// Errors: as `ebbpool_pool_fix`, and `EBBPOOL_BUSY` if another thread uses the scan.
ebbpool_status ebbpool_pool_fix_scan(struct ebbpool_pool *pool,
                                     struct ebbpool_scan *scan,
                                     uint64_t number,
                                     uint32_t page_class,
                                     struct ebbpool_page *page);

// Brings the byte at `offset` of a page into the processor's cache, if the page is resident: for a program that knows which
// pages it will fix next.
ebbpool_status ebbpool_pool_prefetch(struct ebbpool_pool *pool,
                                     uint64_t number,
                                     size_t offset);

// Copies `length` bytes of a resident page from `offset` on, without fixing it (optimistic read). Set `*moment` to 0 before the
// first read of a page; the function stores the moment as of which it has read, and later reads that get it return bytes of
// the same moment. With a `length` of 0 it finds out whether the page is still as it was then, and `buffer` may be null.
//
// Errors: `EBBPOOL_BUSY` if the page is not resident, is being changed, or has changed since: fix it, or begin anew.
// `EBBPOOL_INVALID` for bytes beyond the page.
ebbpool_status ebbpool_pool_read(struct ebbpool_pool *pool,
                                 uint64_t number,
                                 size_t offset,
                                 void *buffer,
                                 size_t length,
                                 uint64_t *moment);

// Stores the number of bytes that `ebbpool_policy_new_in` takes of a region for this policy: exactly as many as it will use,
// wherever the region begins. It makes the policy and releases it again, so that the process needs as much memory for a
// moment.
//
// Errors: as `ebbpool_policy_new_in`.
ebbpool_status ebbpool_policy_bytes(const char *spec,
                                    uint32_t frames,
                                    size_t *bytes);

// Makes a policy as `ebbpool_policy_new` does, which lies in `size` bytes at `region`, with everything that it will ever need.
// No later call for it allocates memory, in the region or elsewhere. A process that maps the region as shared memory, makes
// the policy and forks may call all functions for the policy in all these processes, one at a time, under a lock of theirs.
// Other processes, and programs that these execute, must not. The content of the region does not matter before,
// is lost also after an error, and is the policy's until the program unmaps it or uses it for something else:
// `ebbpool_policy_destroy` has no effect for this policy, in any process. In a library that `dlopen` loaded, a thread's first
// call of any function may make the loader allocate the library's variables of that thread.
//
// If a process ends during a call, each later call returns `EBBPOOL_BUSY`: make a new policy.
//
// Errors: as `ebbpool_policy_new`; `EBBPOOL_INVALID` also if the region has fewer bytes than `ebbpool_policy_bytes` says, if
// the policy may allocate memory later, or if the library is part of a Rust program with another allocator; the text says
// which.
ebbpool_status ebbpool_policy_new_in(const char *spec,
                                     uint32_t frames,
                                     void *region,
                                     size_t size,
                                     struct ebbpool_policy **policy);

// Stores what the pool has done so far.
ebbpool_status ebbpool_pool_stats(struct ebbpool_pool *pool,
                                  struct ebbpool_stats *stats);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EBBPOOL_H */
