/* What a program does to files, many times over: for each kind of work a line
 * with its name and the nanoseconds of one operation, the best of several batches.
 * usage: ops DIR */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char file[4096], fresh[4096], moved[4096];

static int open_close(void)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	return fd < 0 || close(fd);
}

static int just_stat(void)
{
	struct stat st;
	return stat(file, &st);
}

static int make_rename_unlink(void)
{
	int fd = open(fresh, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	return fd < 0 || close(fd) || rename(fresh, moved) || unlink(moved);
}

static const struct { const char *name; int (*work)(void); int count; } kinds[] = {
	{ "open+close", open_close, 4000 },
	{ "stat", just_stat, 4000 },
	{ "create+rename+unlink", make_rename_unlink, 400 },
};

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	snprintf(file, sizeof file, "%s/file", argv[1]);
	snprintf(fresh, sizeof fresh, "%s/fresh", argv[1]);
	snprintf(moved, sizeof moved, "%s/moved", argv[1]);
	for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		double best = 0;
		for (int batch = 0; batch < 8; batch++) {
			struct timespec a, b;
			clock_gettime(CLOCK_MONOTONIC, &a);
			for (int i = 0; i < kinds[k].count; i++)
				if (kinds[k].work()) {
					perror(kinds[k].name);
					return 1;
				}
			clock_gettime(CLOCK_MONOTONIC, &b);
			double ns = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / kinds[k].count;
			if (batch == 0 || ns < best)
				best = ns;
		}
		printf("%s %.0f\n", kinds[k].name, best);
	}
	return 0;
}
