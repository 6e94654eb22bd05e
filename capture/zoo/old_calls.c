// A 64-bit program that makes 32-bit system calls (int 0x80), whose numbers mean other calls: 19 is lseek there and readv here.
// Then one read that counts.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static long old_call(long number, long first, long second, long third) {
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(first), "c"(second), "d"(third), "D"(first)
                     : "memory", "r8", "r9", "r10", "r11");
    return result;
}

int main(int count, char **words) {
    if (count < 2) return 2;
    int file = open(words[1], O_RDWR);
    // An address that fits 32 bits.
    char *bytes = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    char line[16];
    puts("ready");
    fflush(stdout);
    if (file < 0 || bytes == MAP_FAILED || !fgets(line, sizeof line, stdin)) return 1;
    for (int call = 0; call < 10; call++) old_call(19, file, 0x7ffff000, 0);
    lseek(file, 0, SEEK_SET);
    for (int call = 0; call < 3; call++) old_call(3, file, (long)bytes, 100);
    long read = pread(file, bytes, 4096, 0);
    printf("%ld bytes\ndone\n", read);
    fflush(stdout);
    fgets(line, sizeof line, stdin);
    return 0;
}
