// Fails or kills a process at the n-th call that touches files below a folder. See faults.py.
//
// Loaded before the C library, so that it sees the calls of Python, TensorFlow and all others.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { READ, OPEN, WRITE, SYNC, NAME };  // NAME: rename, unlink and the like

static char folder[PATH_MAX];
static long wanted;       // the call to fail, from 1; 0 to count alone
static int fault;         // errno, or -1 to kill
static int lasting;       // whether all later calls fail too
static int log_file = -1;
static atomic_long calls;
static atomic_int armed;

// Whether a fault can befall a call: a full disk does not matter to reading or removing.
static int can_happen(enum kind kind) {
  switch (fault) {
    case ENOSPC: return kind == OPEN || kind == WRITE || kind == SYNC;
    case EACCES: return kind == READ || kind == OPEN || kind == NAME;
    case -1: return kind != READ;
    default: return 1;
  }
}

static int below(const char *path) {
  size_t size = strlen(folder);
  return size && !strncmp(path, folder, size) && (path[size] == '/' || !path[size]);
}

static int path_of(int descriptor, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t size = readlink(link, path, PATH_MAX - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return 1;
}

static int happens(enum kind kind, const char *call, const char *path) {
  if (!can_happen(kind)) return 0;
  long number = atomic_fetch_add(&calls, 1) + 1;
  int now = wanted && (number == wanted || (lasting && number > wanted));
  if (log_file >= 0) {
    char line[PATH_MAX + 64];
    int size = snprintf(line, sizeof line, "%ld %s %s%s\n", number, call, path, now ? " *" : "");
    syscall(SYS_write, log_file, line, size);
  }
  if (now && fault < 0) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  if (now) errno = fault;
  return now;
}

static int at_path(enum kind kind, const char *call, int at, const char *path) {
  if (!atomic_load(&armed) || !path) return 0;
  int before = errno;
  char whole[2 * PATH_MAX];
  whole[0] = 0;
  if (path[0] != '/') {
    if (at == AT_FDCWD ? !getcwd(whole, PATH_MAX) : !path_of(at, whole)) return 0;
    strcat(whole, "/");
  }
  strncat(whole, path, PATH_MAX - 1);
  errno = before;
  return below(whole) && happens(kind, call, whole);
}

static int at_file(enum kind kind, const char *call, int descriptor) {
  if (!atomic_load(&armed) || descriptor <= 2) return 0;
  int before = errno;
  char path[PATH_MAX];
  int is_ours = path_of(descriptor, path) && below(path);
  errno = before;
  return is_ours && happens(kind, call, path);
}

static int kind_of_opening(int flags) {
  return (flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT ? OPEN : READ;
}

// For Python, in the same process: begins to count; tells how often.

void faults_arm(long number, int error, int last, const char *below_folder) {
  atomic_store(&armed, 0);
  snprintf(folder, sizeof folder, "%s", below_folder);
  wanted = number;
  fault = error;
  lasting = last;
  atomic_store(&calls, 0);
  atomic_store(&armed, folder[0] != 0);
}

long faults_count(void) { return atomic_load(&calls); }

__attribute__((constructor)) static void begin(void) {
  const char *text = getenv("DTMT_FAULTS"), *log = getenv("DTMT_FAULTS_LOG");
  if (log) log_file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  long number;
  int error, last, end = 0;
  if (text && sscanf(text, "%ld:%d:%d:%n", &number, &error, &last, &end) == 3 && end)
    faults_arm(number, error, last, text + end);
  unsetenv("DTMT_FAULTS");  // a program that this one starts is left alone
}

#define NEXT(result, name, ...) \
  static result (*next)(__VA_ARGS__); \
  if (!next) next = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define OPENS(name) \
  int name(const char *path, int flags, ...) { \
    NEXT(int, #name, const char *, int, ...); \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = va_arg(rest, mode_t); \
    va_end(rest); \
    if (at_path(kind_of_opening(flags), "open", AT_FDCWD, path)) return -1; \
    return next(path, flags, mode); \
  }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name) \
  int name(int at, const char *path, int flags, ...) { \
    NEXT(int, #name, int, const char *, int, ...); \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = va_arg(rest, mode_t); \
    va_end(rest); \
    if (at_path(kind_of_opening(flags), "open", at, path)) return -1; \
    return next(at, path, flags, mode); \
  }
OPENS_AT(openat)
OPENS_AT(openat64)

#define OPENS_2(name) \
  int name(const char *path, int flags) { \
    NEXT(int, #name, const char *, int); \
    if (at_path(kind_of_opening(flags), "open", AT_FDCWD, path)) return -1; \
    return next(path, flags); \
  }
OPENS_2(__open_2)
OPENS_2(__open64_2)

#define OPENS_STREAM(name) \
  FILE *name(const char *path, const char *mode) { \
    NEXT(FILE *, #name, const char *, const char *); \
    enum kind kind = strpbrk(mode, "wa+") ? OPEN : READ; \
    if (at_path(kind, "fopen", AT_FDCWD, path)) return NULL; \
    return next(path, mode); \
  }
OPENS_STREAM(fopen)
OPENS_STREAM(fopen64)

ssize_t write(int file, const void *data, size_t size) {
  NEXT(ssize_t, "write", int, const void *, size_t);
  return at_file(WRITE, "write", file) ? -1 : next(file, data, size);
}

#define WRITES_AT(name, offset_type) \
  ssize_t name(int file, const void *data, size_t size, offset_type offset) { \
    NEXT(ssize_t, #name, int, const void *, size_t, offset_type); \
    return at_file(WRITE, "pwrite", file) ? -1 : next(file, data, size, offset); \
  }
WRITES_AT(pwrite, off_t)
WRITES_AT(pwrite64, off64_t)

ssize_t writev(int file, const struct iovec *parts, int count) {
  NEXT(ssize_t, "writev", int, const struct iovec *, int);
  return at_file(WRITE, "writev", file) ? -1 : next(file, parts, count);
}

#define SENDS(name, offset_type) \
  ssize_t name(int to, int from, offset_type *offset, size_t size) { \
    NEXT(ssize_t, #name, int, int, offset_type *, size_t); \
    return at_file(WRITE, "sendfile", to) ? -1 : next(to, from, offset, size); \
  }
SENDS(sendfile, off_t)
SENDS(sendfile64, off64_t)

ssize_t copy_file_range(int from, off64_t *here, int to, off64_t *there, size_t size,
                        unsigned flags) {
  NEXT(ssize_t, "copy_file_range", int, off64_t *, int, off64_t *, size_t, unsigned);
  if (at_file(WRITE, "copy_file_range", to)) return -1;
  return next(from, here, to, there, size, flags);
}

size_t fwrite(const void *data, size_t size, size_t count, FILE *stream) {
  NEXT(size_t, "fwrite", const void *, size_t, size_t, FILE *);
  return at_file(WRITE, "fwrite", fileno(stream)) ? 0 : next(data, size, count, stream);
}

int fsync(int file) {
  NEXT(int, "fsync", int);
  return at_file(SYNC, "fsync", file) ? -1 : next(file);
}

int fdatasync(int file) {
  NEXT(int, "fdatasync", int);
  return at_file(SYNC, "fsync", file) ? -1 : next(file);
}

int rename(const char *from, const char *to) {
  NEXT(int, "rename", const char *, const char *);
  return at_path(NAME, "rename", AT_FDCWD, to) ? -1 : next(from, to);
}

int renameat(int from_at, const char *from, int at, const char *to) {
  NEXT(int, "renameat", int, const char *, int, const char *);
  return at_path(NAME, "rename", at, to) ? -1 : next(from_at, from, at, to);
}

#define NAMES(name, call, kind) \
  int name(const char *path) { \
    NEXT(int, #name, const char *); \
    return at_path(kind, call, AT_FDCWD, path) ? -1 : next(path); \
  }
NAMES(unlink, "unlink", NAME)
NAMES(rmdir, "rmdir", NAME)
NAMES(remove, "remove", NAME)

int unlinkat(int at, const char *path, int flags) {
  NEXT(int, "unlinkat", int, const char *, int);
  return at_path(NAME, "unlink", at, path) ? -1 : next(at, path, flags);
}

// A folder that is there already is no fault of the disk.

int mkdir(const char *path, mode_t mode) {
  NEXT(int, "mkdir", const char *, mode_t);
  if (access(path, F_OK) && at_path(OPEN, "mkdir", AT_FDCWD, path)) return -1;
  return next(path, mode);
}

int mkdirat(int at, const char *path, mode_t mode) {
  NEXT(int, "mkdirat", int, const char *, mode_t);
  if (faccessat(at, path, F_OK, 0) && at_path(OPEN, "mkdir", at, path)) return -1;
  return next(at, path, mode);
}
