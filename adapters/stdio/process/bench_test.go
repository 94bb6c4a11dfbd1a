//go:build unix

package process

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"dragoman/adapters/stdio/reaper"
)

// BenchmarkProcessEcho sends lines through a real child that echoes them, depth at a time, each by a goroutine that waits for its answer,
// as calls do.
func BenchmarkProcessEcho(b *testing.B) {
	for _, size := range []int{300, 10 << 10, 1 << 20} {
		for _, depth := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("%dB/depth%d", size, depth), func(b *testing.B) { benchEcho(b, size, depth) })
		}
	}
}

func benchEcho(b *testing.B, size, depth int) {
	c := child("echo")
	c.Buffer = 4 << 20
	p := start(b, c)
	line := bytes.Repeat([]byte("x"), size)
	turn := make(chan struct{}, depth) // one for each answer
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			got, err := p.ReadLine()
			if err != nil {
				return
			}
			if len(got) != size {
				b.Errorf("%d bytes", len(got))
			}
			turn <- struct{}{}
		}
	}()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	work := make(chan struct{})
	ended := make(chan struct{})
	for range depth {
		go func() {
			defer func() { ended <- struct{}{} }()
			for range work {
				if err := p.Write(line); err != nil {
					b.Error(err)
				}
				<-turn
			}
		}()
	}
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	for range depth {
		<-ended
	}
	b.StopTimer()
	p.Stop()
	<-stopped
}

// BenchmarkProcessStart starts a small child, and stops it, directly and by a reaper.
func BenchmarkProcessStart(b *testing.B) {
	g := reaper.New(reaper.Options{Exe: os.Args[0]})
	defer g.Close()
	g.Prestart()
	for _, way := range []struct {
		name string
		g    *reaper.Reaper
	}{{"direct", nil}, {"reaper", g}} {
		b.Run(way.name, func(b *testing.B) {
			var starts time.Duration
			for range b.N {
				begin := time.Now()
				p, err := Start(background(), Command{Argv: []string{"cat"}, Reaper: way.g})
				if err != nil {
					b.Fatal(err)
				}
				starts += time.Since(begin)
				p.Stop()
			}
			b.ReportMetric(float64(starts.Microseconds())/float64(b.N), "us/start")
		})
	}
}
