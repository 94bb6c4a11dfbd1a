package bert

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-json"
	"golang.org/x/text/unicode/norm"
)

// maxWord is how many characters a word may have; a longer one is unknown.
const maxWord = 200

// tokenizer cuts texts into the pieces of words that a model knows: BertNormalizer, BertPreTokenizer and WordPiece of the tokenizers library,
// between the two tokens that begin and end a text. Unlike there, special tokens written in a text are ordinary text, since texts are those of
// others.
type tokenizer struct {
	words                 map[string]int32
	prefix                string // of a piece that continues a word
	longest               int    // word, in characters
	unknown, first, last  int32
	clean, chinese, lower bool
	strip                 bool // accents
}

// parseTokenizer reads a tokenizer.json. vocabulary is how many words the model has.
func parseTokenizer(raw []byte, vocabulary int) (*tokenizer, error) {
	var file struct {
		Normalizer struct {
			Type    string
			Clean   bool  `json:"clean_text"`
			Chinese bool  `json:"handle_chinese_chars"`
			Strip   *bool `json:"strip_accents"`
			Lower   bool  `json:"lowercase"`
		}
		Split struct{ Type string } `json:"pre_tokenizer"`
		Model struct {
			Type    string           // left out by older versions
			Unknown string           `json:"unk_token"`
			Prefix  string           `json:"continuing_subword_prefix"`
			Longest int              `json:"max_input_chars_per_word"`
			Words   map[string]int32 `json:"vocab"`
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, err
	}
	n, m := &file.Normalizer, &file.Model
	if n.Type != "BertNormalizer" || file.Split.Type != "BertPreTokenizer" || m.Type != "" && m.Type != "WordPiece" {
		return nil, errors.New("the tokenizer is not that of BERT (BertNormalizer, BertPreTokenizer, WordPiece); fix: set an endpoint that serves the model")
	}
	t := &tokenizer{words: m.Words, prefix: m.Prefix, longest: min(max(m.Longest, 1), maxWord), clean: n.Clean, chinese: n.Chinese, lower: n.Lower, strip: n.Lower}
	if n.Strip != nil {
		t.strip = *n.Strip
	}
	for word, id := range t.words {
		if id < 0 || int(id) >= vocabulary {
			return nil, fmt.Errorf("the token %.40q has the number %d, and the model %d tokens; fix: copy the directory anew", word, id, vocabulary)
		}
	}
	for word, id := range map[string]*int32{m.Unknown: &t.unknown, "[CLS]": &t.first, "[SEP]": &t.last} {
		n, there := t.words[word]
		if *id = n; !there {
			return nil, fmt.Errorf("there is no token %.40q; fix: copy the directory anew", word)
		}
	}
	return t, nil
}

// encode returns the tokens of a text, at most longest, which is at least 3.
func (t *tokenizer) encode(text string, longest int) []int32 {
	text = bounded(text, longest)
	ids := append(make([]int32, 0, 32), t.first)
	for word := range strings.FieldsFuncSeq(t.normalise(text), unicode.IsSpace) {
		for word != "" && len(ids) < longest-1 {
			end := strings.IndexFunc(word, punctuation)
			switch {
			case end < 0:
				end = len(word)
			case end == 0:
				_, end = utf8.DecodeRuneInString(word)
			}
			ids = t.pieces(ids, word[:end])
			word = word[end:]
		}
	}
	return append(ids[:min(len(ids), longest-1)], t.last)
}

// bounded cuts a text that is far longer than what the tokens can be of: a token takes at most maxWord characters and the space behind it.
func bounded(text string, longest int) string {
	most := longest * (maxWord + 1) * utf8.UTFMax
	if len(text) > most {
		return text[:most]
	}
	return text
}

// pieces appends the longest pieces that make the word, or the unknown token.
func (t *tokenizer) pieces(ids []int32, word string) []int32 {
	if utf8.RuneCountInString(word) > t.longest {
		return append(ids, t.unknown)
	}
	start, before := 0, len(ids)
	var buf [maxWord*utf8.UTFMax + 16]byte
	for start < len(word) {
		piece := buf[:0]
		if start > 0 {
			piece = append(piece, t.prefix...)
		}
		prefix := len(piece)
		piece = append(piece, word[start:]...)
		id, there := int32(0), false
		for len(piece) > prefix {
			if id, there = t.words[string(piece)]; there {
				break
			}
			_, size := utf8.DecodeLastRune(piece)
			piece = piece[:len(piece)-size]
		}
		if !there {
			return append(ids[:before], t.unknown)
		}
		ids, start = append(ids, id), start+len(piece)-prefix
	}
	return ids
}

// normalise applies BertNormalizer.
func (t *tokenizer) normalise(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		switch {
		case t.clean && (r == 0 || r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) && r != '\t' && r != '\n' && r != '\r'):
		case t.clean && unicode.IsSpace(r):
			b.WriteByte(' ')
		case t.chinese && ideograph(r):
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	text = b.String()
	if t.strip {
		text = strings.Map(func(r rune) rune {
			if unicode.Is(unicode.Mn, r) {
				return -1
			}
			return r
		}, norm.NFD.String(text))
	}
	if t.lower {
		text = strings.Map(unicode.ToLower, text)
	}
	return text
}

// punctuation reports whether a character is a word of its own.
func punctuation(r rune) bool {
	return r < utf8.RuneSelf && (unicode.IsPunct(r) || unicode.IsSymbol(r)) || unicode.IsPunct(r)
}

// ideograph reports whether a character is one of the CJK ideographs, which are written without spaces.
func ideograph(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B73F ||
		r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF || r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}
