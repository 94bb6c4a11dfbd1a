package lines

import "golang.org/x/sys/unix"

// mapNoReserve excludes untouched pages from the system's memory accounting.
const mapNoReserve = unix.MAP_NORESERVE
