package classification

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
	"github.com/kljensen/snowball/russian"
)

// maxWords bounds the words that are read of one text.
const maxWords = 400

// stems returns the words of a text in the form in which they are compared. Names such as getUserInfo are split at capitals.
func stems(text string) (all []string) {
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			all = append(all, stem(word.String()))
			word.Reset()
		}
	}
	var before rune
	for _, r := range text {
		if len(all) >= maxWords {
			return all
		}
		letter := unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
		if !letter || unicode.IsUpper(r) && unicode.IsLower(before) {
			end()
		}
		if letter && word.Len() < maxWordBytes {
			word.WriteRune(unicode.ToLower(r))
		}
		before = r
	}
	end()
	return all
}

// maxWordBytes bounds one word. The rest of a longer one is left out.
const maxWordBytes = 64

// stem returns the stem of an English or a Russian word in lower case; any other word is its own.
func stem(word string) string {
	if len(word) < 3 {
		return word
	}
	switch first, _ := utf8.DecodeRuneInString(word); {
	case first >= 'a' && first <= 'z':
		return english.Stem(word, true)
	case unicode.Is(unicode.Cyrillic, first):
		return russian.Stem(word, true)
	}
	return word
}

// empty are words of descriptions that say nothing of what a category is about.
var empty = func() map[string]bool {
	all := map[string]bool{}
	for _, word := range stems(`a about all an and any are as at be by can come do does for from get has have how in into is it its list may new no not now
		of on one or other out set that the their them there these they this those to up use used using what when where which who will with you your
		reading writing finding making changing opening running searching`) {
		all[word] = true
	}
	return all
}()
