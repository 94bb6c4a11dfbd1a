//go:build linux

package child

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// alone starts a stubborn server of the role's era in a session of its own, on the same pipes, and waits for it, as `setsid --wait` does.
func (r Role) alone(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("child: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, Word, Role{Modern: r.Modern, Kind: Stubborn}.String())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err = cmd.Run(); err != nil {
		return fmt.Errorf("child: %w", err)
	}
	return nil
}
