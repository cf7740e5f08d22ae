/* A floor: the system calls that a boundary needs, and nothing else. No
 * profile, no judgement, no message. The boundary is on the command line, as the
 * kernel's own numbers: what is handled, the scopes, and the rights of each path.
 * usage: landlock HANDLED SCOPED [RIGHTS:PATH]... -- CMD... */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct attr { unsigned long long fs, net, scoped; };

int main(int argc, char **argv, char **envp)
{
	struct attr a = { strtoull(argv[1], NULL, 16), 0, strtoull(argv[2], NULL, 16) };
	int i, ruleset = syscall(SYS_landlock_create_ruleset, &a, a.scoped ? sizeof a : 8, 0);

	if (ruleset < 0)
		return 125;
	for (i = 3; i < argc && strcmp(argv[i], "--"); i++) {
		char *path;
		struct landlock_path_beneath_attr rule = { strtoull(argv[i], &path, 16), 0 };
		rule.parent_fd = open(path + 1, O_PATH | O_CLOEXEC);
		if (rule.parent_fd < 0 || syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
			return 125;
		close(rule.parent_fd);
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, ruleset, 0))
		return 125;
	execve(argv[i + 1], argv + i + 1, envp);
	return 127;
}
