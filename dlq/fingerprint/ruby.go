package fingerprint

import (
	"regexp"
	"strings"
)

// Ruby, as Exception#full_message prints it, with the quotes of Ruby 3.4 or of earlier versions:
//
//	/app/lib/shop/orders.rb:31:in 'Shop::Orders#price': undefined method 'rate' for nil (NoMethodError)
//		from /app/lib/shop/worker.rb:12:in 'block (2 levels) in Shop::Worker#run'
//
// The cause follows the exception in the same form. A plain backtrace has neither "from" nor
// message; it may follow a line such as "NoMethodError: undefined method …".
var ruby = syntax{frame: rubyFrame, inline: rubyHead}

var (
	rubyLine = regexp.MustCompile("^(?:\\d+: )?(from )?(.+):\\d+:in ['`](?:[^']* in )?(?:[^']*[#.])?([^']+)'?(?:: (.*))?$")
	rubyText = regexp.MustCompile(`^(.*) \(([^()]+)\)$`)
)

// rubyFrame returns "shop.orders.price". Only Ruby 3.4 and later versions name the class.
func rubyFrame(body string) (name string, own, ok bool) {
	if !strings.Contains(body, ":in ") {
		return "", false, false
	}
	m := rubyLine.FindStringSubmatch(prefix(body, maxRead))
	if m == nil {
		return "", false, false
	}
	return moduleOf(m[2]) + "." + m[3], m[2][0] != '<' && !containsAny(m[2], "/gems/", "/lib/ruby/", "/bundler/"), true
}

// rubyHead reads the exception in the line of its first frame.
func rubyHead(body string) (e exception, ok bool) {
	m := rubyLine.FindStringSubmatch(prefix(body, maxRead))
	if m == nil || m[1] != "" || m[4] == "" {
		return e, false
	}
	if text := rubyText.FindStringSubmatch(m[4]); text != nil {
		return exception{class: text[2], message: text[1]}, true
	}
	return exception{message: m[4]}, true
}
