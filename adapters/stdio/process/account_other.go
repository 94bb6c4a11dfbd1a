//go:build !linux

package process

import (
	"errors"

	"dragoman/adapters/stdio/launch"
)

// Account returns an error if a user or group is given: the configuration refuses both on this system.
func Account(userName, groupName string) (account *launch.Account, env []string, err error) {
	if userName != "" || groupName != "" {
		return nil, nil, errors.New("children run as another user on Linux only")
	}
	return nil, nil, nil
}
