/* A floor: the system calls that a boundary needs, and nothing else. No
 * profile, no judgement, no message. usage: landlock [x:|r:|w:|d:]PATH... -- CMD... */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct attr { unsigned long long fs, net, scoped; };

int main(int argc, char **argv, char **envp)
{
	const unsigned long long x = 0xd, r = 0xc, w = 0x7fff & ~(1ULL << 6 | 1ULL << 11), d = 0x6;
	struct attr a = { 0xffff, 0, 3 };
	int i, abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);

	if (abi < 6)
		a.scoped = 0;
	if (abi < 5)
		a.fs = 0x7fff;
	if (abi < 3)
		return 125;
	int ruleset = syscall(SYS_landlock_create_ruleset, &a, abi < 6 ? 8 : sizeof a, 0);
	if (ruleset < 0)
		return 125;
	for (i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		struct landlock_path_beneath_attr rule = { 0 };
		switch (argv[i][0]) {
		case 'x': rule.allowed_access = x; break;
		case 'r': rule.allowed_access = r; break;
		case 'w': rule.allowed_access = w; break;
		case 'd': rule.allowed_access = d; break;
		}
		rule.parent_fd = open(argv[i] + 2, O_PATH | O_CLOEXEC);
		if (rule.parent_fd < 0)
			continue;
		if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
			return 125;
		close(rule.parent_fd);
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, ruleset, 0))
		return 125;
	execve(argv[i + 1], argv + i + 1, envp);
	return 127;
}
