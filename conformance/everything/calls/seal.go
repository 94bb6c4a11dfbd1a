package calls

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"
)

// StateTTL is the lifetime of a requestState, MaxState its largest size in bytes.
const (
	StateTTL = 10 * time.Minute
	MaxState = 256 << 10
)

// errState reports a requestState that was not issued here for this request.
var errState = errors.New("params.requestState was not given out for this request, has been changed, or has expired")

// seal makes requestStates that others can neither read nor change nor use for another request (2026-07-28
// multi-round-trip requests, Server Requirements). The key lives as long as the server.
type seal struct{ aead cipher.AEAD }

func newSeal() seal {
	var key [32]byte
	_, _ = rand.Read(key[:])                       // never fails
	block, _ := aes.NewCipher(key[:])              // 32 bytes are a valid key
	aead, _ := cipher.NewGCMWithRandomNonce(block) // AES has the required block size
	return seal{aead}
}

// close seals text as a requestState for the request with this binding.
func (s seal) close(text, binding []byte) string {
	end := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(StateTTL).Unix()))                //nolint:gosec // after 1970
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, append(end, text...), binding)) //nolint:gosec // G407: the cipher makes its nonce
}

// open returns the text of a requestState, or errState.
func (s seal) open(state string, binding []byte) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(state)
	if err != nil || len(state) > MaxState {
		return nil, errState
	}
	text, err := s.aead.Open(nil, nil, raw, binding)
	if err != nil || len(text) < 8 || time.Now().Unix() >= int64(binary.BigEndian.Uint64(text)) { //nolint:gosec // made by close
		return nil, errState
	}
	return text[8:], nil
}

// binding identifies a request: its method, its name, its arguments as written, and its sender. Absent arguments equal
// {}.
func (q *Query) binding() []byte {
	args := q.Args.At.Of(q.Args.Raw)
	if args == nil {
		args = []byte("{}")
	}
	sum := sha256.Sum256(args)
	b := sum[:]
	for _, part := range [...][]byte{q.Msg.Text(q.Msg.Method), q.Msg.Text(q.Msg.Name), []byte(q.caller.Principal)} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...) //nolint:gosec // part of a message
	}
	return b
}
