// Looks like a PostgreSQL server whose program is in a file system that a program of the same user serves (FUSE). Makes a copy of
// the program that its first argument names appear as "postgres" in the directory that the second names, and becomes that. With a
// third directory, and an empty one, it becomes the same program in an overlay above, in a name space of its own.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int device, program;
static char request[1 << 18], contents[1 << 18];

static void reply(struct fuse_in_header *to, int error, void *bytes, size_t count) {
    struct fuse_out_header head = {sizeof head + count, -error, to->unique};
    struct iovec parts[2] = {{&head, sizeof head}, {bytes, count}};
    if (writev(device, parts, count ? 2 : 1) < 0) return;
}

static struct fuse_attr attributes(unsigned long node) {
    struct stat stat;
    fstat(program, &stat);
    struct fuse_attr of = {.ino = node, .mode = S_IFDIR | 0755, .nlink = 1, .blksize = 4096};
    if (node == 2) of.size = stat.st_size, of.mode = S_IFREG | 0755;
    return of;
}

static void answer(struct fuse_in_header *head) {
    void *in = head + 1;
    struct fuse_init_out init = {.major = 7, .minor = 31, .max_write = 4096, .max_readahead = 65536};
    struct fuse_entry_out entry = {.nodeid = 2, .attr_valid = 60, .entry_valid = 60, .attr = attributes(2)};
    struct fuse_attr_out attr = {.attr_valid = 60, .attr = attributes(head->nodeid)};
    struct fuse_open_out opened = {.open_flags = FOPEN_KEEP_CACHE};
    struct fuse_statfs_out system = {.st = {.bsize = 4096, .namelen = 255}};
    struct fuse_read_in *read = in;
    ssize_t count;
    switch (head->opcode) {
    case FUSE_INIT:
        return reply(head, 0, &init, sizeof init);
    case FUSE_LOOKUP:
        return strcmp(in, "postgres") ? reply(head, ENOENT, 0, 0) : reply(head, 0, &entry, sizeof entry);
    case FUSE_GETATTR:
        return reply(head, 0, &attr, sizeof attr);
    case FUSE_STATFS:
        return reply(head, 0, &system, sizeof system);
    case FUSE_OPEN:
    case FUSE_OPENDIR:
        return reply(head, 0, &opened, sizeof opened);
    case FUSE_READ:
        count = pread(program, contents, read->size < sizeof contents ? read->size : sizeof contents, read->offset);
        return reply(head, count < 0 ? EIO : 0, contents, count < 0 ? 0 : count);
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_FLUSH:
        return reply(head, 0, 0, 0);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
        return;
    default:
        reply(head, ENOSYS, 0, 0);
    }
}

static int is_overlaid(char **words) {
    char options[9000];
    snprintf(options, sizeof options, "lowerdir=%s:%s", words[2], words[4]);
    return !unshare(CLONE_NEWNS) && !mount(0, "/", 0, MS_REC | MS_PRIVATE, 0) && !mount("zoo", words[3], "overlay", 0, options);
}

int main(int count, char **words) {
    char options[128], path[4096];
    pid_t target = getpid();
    if (count < 3) return 2;
    program = open(words[1], O_RDONLY);
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device);
    if (program < 0 || device < 0 || mount("zoo", words[2], "fuse", 0, options)) {
        puts("no file system\nready");
        fflush(stdout);
        return 0;
    }
    snprintf(path, sizeof path, "%s/postgres", words[count > 4 ? 3 : 2]);
    if (fork() > 0) {
        if (count > 4 && !is_overlaid(words)) {
            puts("no overlay\nready");
            fflush(stdout);
            return 0;
        }
        execl(path, path, "victim", (char *)0);
        return 1;
    }
    while (getppid() == target) {
        struct pollfd waited = {.fd = device, .events = POLLIN};
        if (poll(&waited, 1, 100) > 0) {
            ssize_t bytes = read(device, request, sizeof request);
            if (bytes < 0 && errno == ENODEV) break;
            if (bytes >= (ssize_t)sizeof(struct fuse_in_header)) answer((void *)request);
        }
    }
    umount2(words[2], MNT_DETACH);
    return 0;
}
