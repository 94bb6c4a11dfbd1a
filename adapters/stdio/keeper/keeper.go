// Package keeper is the process between Dragoman and its reaper on Linux. It ends what a reaper leaves behind that was killed, even
// if Dragoman was killed at the same moment.
//
// The keeper is our own binary. It starts the reaper and waits for its end. As a subreaper (prctl(2)) it then becomes the parent of
// every process that the reaper had below it, whatever session, group or environment that process has. If there is any, it executes
// the binary again, as the reaper in its last state: see [Ended].
//
// A process that only waits should cost no more than that. The keeper therefore runs before the packages of the program are
// initialized, which would take some 7 ms of each start and 3 MiB: the linker initializes packages in the order of their paths as far as
// their imports allow, and this one imports little. If that order changes, the keeper works all the same, and costs more.
package keeper

// Key is the environment variable that makes a process the keeper, with the value Start. It is not inherited by children.
const Key = "_DRAGOMAN_KEEPER"

// Values of Key.
const (
	Start = "start" // the process becomes the keeper: it does not reach main
	Ended = "ended" // the reaper has ended; what it has left is ours, and to be ended by the reaper's Main
)

// Name is the name of the process, and its argument in process lists.
const Name = "keeper"
