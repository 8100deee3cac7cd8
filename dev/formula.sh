#!/usr/bin/env bash
# Prints a Homebrew formula of dlqctl for the archives in dist/: dev/formula.sh v0.1.0 https://github.com/owner/dlq-manager
set -euo pipefail
version=$1 project=$2

cat <<RUBY
class Dlqctl < Formula
  desc "Shows dead letters and sends them back"
  homepage "$project"
  version "${version#v}"
  license "Apache-2.0"
RUBY
for os in darwin:macos linux:linux; do
	archives=$(cd dist && find . -name "dlqctl-$version-${os%:*}-*.tar.gz" -printf '%f\n' | LC_ALL=C sort)
	[ -n "$archives" ] || continue
	printf '\n  on_%s do\n' "${os#*:}"
	for archive in $archives; do
		case $archive in *-arm64.tar.gz) processor=arm ;; *) processor=intel ;; esac
		cat <<RUBY
    on_$processor do
      url "$project/releases/download/$version/$archive"
      sha256 "$(sha256sum <"dist/$archive" | cut -c -64)"
    end
RUBY
	done
	echo "  end"
done
cat <<'RUBY'

  def install
    bin.install "dlqctl"
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "completions/dlqctl.bash" => "dlqctl"
    zsh_completion.install "completions/_dlqctl"
    fish_completion.install "completions/dlqctl.fish"
  end

  test do
    assert_equal "dlqctl v#{version}", shell_output("#{bin}/dlqctl --version").strip
  end
end
RUBY
