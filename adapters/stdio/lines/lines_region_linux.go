package lines

import "golang.org/x/sys/unix"

// mapNoReserve: what is not touched does not count as promised.
const mapNoReserve = unix.MAP_NORESERVE
