//go:build unix

package deadletter

import "syscall"

// notFollowed refuses a symbolic link that has taken the file's place since it was looked at.
const notFollowed = syscall.O_NOFOLLOW
