package view

import (
	"crypto/sha256"
	"errors"
	"strconv"
	"sync"
	"testing"

	"dragoman/adapters/skills"
)

// What is written is written once, whoever asks at once, and what is kept is bounded in number and size.
func TestGeneratedSkillsAreKept(t *testing.T) {
	var g generated
	var mu sync.Mutex
	writes := map[int]int{}
	ask := func(n, size int) {
		sum := sha256.Sum256([]byte(strconv.Itoa(n)))
		s, err := g.of(sum, func() (skills.Skill, error) {
			mu.Lock()
			writes[n]++
			mu.Unlock()
			return skills.Skill{Name: strconv.Itoa(n), Files: []skills.File{{Data: make([]byte, size)}}}, nil
		})
		if err != nil || s.Name != strconv.Itoa(n) {
			t.Errorf("%d: %v %v", n, s, err)
		}
	}
	var group sync.WaitGroup
	for range 4 {
		for n := range 10 {
			group.Go(func() { ask(n, 100) })
		}
	}
	group.Wait()
	for n, count := range writes {
		if count != 1 {
			t.Errorf("%d is written %d times", n, count)
		}
	}
	for n := range 2 * maxGenerated {
		ask(n, 1000)
	}
	if g.kept.Len() != maxGenerated || g.bytes != 1000*maxGenerated {
		t.Errorf("%d skills of %d bytes", g.kept.Len(), g.bytes)
	}
	for n := range 3 {
		ask(1000+n, maxGeneratedBytes/2+1)
	}
	if g.kept.Len() != 1 || g.bytes > maxGeneratedBytes {
		t.Errorf("%d large skills of %d bytes", g.kept.Len(), g.bytes)
	}
	broken := errors.New("broken")
	if _, err := g.of(sha256.Sum256(nil), func() (skills.Skill, error) { return skills.Skill{}, broken }); !errors.Is(err, broken) {
		t.Errorf("a skill that cannot be written: %v", err)
	}
}
