package app

import (
	"context"
	"dragoman/internal/config"
	"time"
)

// watchFiles tells when one of the files that a configuration comes from has changed, once it has been the same for one look. It
// looks at them instead of having the system tell: mounted secrets and ConfigMaps are replaced by changing a link two directories
// above, editors replace files by renaming, and network file systems tell nobody. holds gives the configuration that holds. It ends
// with ctx.
func watchFiles(ctx context.Context, holds func() *config.Config, changed chan<- struct{}) {
	last, told := "", ""
	for {
		pause := holds().Reload.Watch
		off := pause == 0
		if off { // until a reload says otherwise
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
