package app

import (
	"context"
	"time"

	"dragoman/internal/config"
)

// watchFiles sends to changed when one of the files that a configuration comes from has changed and stayed the same for
// one interval. It polls them, since notifications are not reliable: mounted secrets and ConfigMaps are replaced by
// changing a link two directories above, editors replace files by renaming, and network file systems notify nobody.
// holds returns the current configuration. watchFiles ends with ctx.
func watchFiles(ctx context.Context, holds func() *config.Config, changed chan<- struct{}) {
	last, told := "", ""
	for {
		pause := holds().Reload.Watch
		off := pause == 0
		if off { // until a reload switches it on
			pause = time.Minute
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if off {
			continue
		}
		cfg := holds()
		now := config.Fingerprint(cfg.Files())
		if now == last && now != cfg.Seen && now != told {
			told = now // even if it will be refused
			select {
			case changed <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
		last = now
	}
}
