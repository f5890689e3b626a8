// Feeds the scanner with anything: it must stay within its buffer, account for every element, and read the same rows
// whether it gets a text at once or in two pieces. Built and run by tools/fuzz_scanner.py.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "boundary.hpp"
#include "columns.hpp"
#include "layout.inc"  // fuzz_layout(), written by the tool from the layout that traces are read with

namespace {

using namespace stepscope;

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "broken promise: %s\n", what);
    std::abort();
}

void expect(bool holds, const char* what) {
    if (!holds) {
        fail(what);
    }
}

// A copy of the text that is exactly as large as the scanner may read, so that the sanitizer sees one byte too many.
std::unique_ptr<char[]> padded(const std::string& text) {
    auto buffer = std::make_unique<char[]>(text.size() + kPadding);
    std::copy(text.begin(), text.end(), buffer.get());
    return buffer;
}

void check(const Scanner& scanner, std::size_t begin, std::size_t end) {
    std::size_t rows = scanner.odd().size();
    for (int table = 0; table < kTables; ++table) {
        rows += scanner.rows(table).positions.size();
        for (const Cells& cells : scanner.rows(table).columns) {
            expect(cells.numbers.size() <= scanner.rows(table).positions.size(), "a cell without a row");
            expect(cells.codes.size() <= scanner.rows(table).positions.size(), "a cell without a row");
        }
    }
    expect(rows == scanner.count(), "elements are rows or odd");
    expect(begin <= scanner.after_previous() && scanner.after_previous() <= scanner.resume(), "reading goes forward");
    expect(scanner.resume() <= end, "reading stays within the text");
    std::size_t last = begin;
    for (const Odd& odd : scanner.odd()) {
        expect(last <= odd.begin && odd.begin < odd.end && odd.end <= scanner.after_previous(),
               "odd elements in order");
        last = odd.end;
    }
}

// Everything that was read, as text: rows with the texts that their codes stand for.
std::string shown(Columns& columns, const Layout& layout) {
    std::string all = std::to_string(columns.count()) + "\n";
    for (int table = 0; table < kTables; ++table) {
        for (std::size_t number = 0; number <= layout.tables[table].size(); ++number) {
            const auto column = columns.take(table, number);
            all += "\n" + std::to_string(table) + "." + std::to_string(number) + ":";
            for (std::size_t row = 0; column != nullptr && row < column->size(); ++row) {
                if (column->is_text) {
                    const std::uint32_t code = column->codes.data()[row];
                    const Text text = columns.texts(layout.dictionary(layout.tables[table][number])).at(code);
                    all += " " + (code == 0 ? std::string("-") : std::string(text.begin, text.size));
                } else {
                    all += " " + std::to_string(column->numbers.data()[row]);
                }
            }
        }
    }
    return all;
}

std::string at_once(const std::string& text, const Layout& layout, Scanner& scanner, std::string& rows) {
    Columns columns(layout);
    const auto buffer = padded(text);
    scanner.scan(buffer.get(), 0, text.size(), State::first);
    check(scanner, 0, text.size());
    columns.append(scanner);
    rows = shown(columns, layout);
    return std::to_string(static_cast<int>(scanner.stop())) + " " + std::to_string(scanner.resume());
}

// The first piece ends at `cut`; what it leaves stands before the second.
std::string in_two(const std::string& text, std::size_t cut, const Layout& layout, Scanner& scanner,
                   std::string& rows) {
    Columns columns(layout);
    const auto first = padded(text.substr(0, cut));
    scanner.scan(first.get(), 0, cut, State::first);
    check(scanner, 0, cut);
    columns.append(scanner);
    std::size_t left = scanner.after_previous();
    const State state = scanner.state_after_previous();
    // A damaged event is left out where the text tells what follows it: else more of the text is needed.
    if (scanner.stop() == Stop::exhausted || scanner.stop() == Stop::broken) {
        const std::string rest = text.substr(left);
        const auto second = padded(rest);
        scanner.scan(second.get(), 0, rest.size(), state);
        check(scanner, 0, rest.size());
        columns.append(scanner);
    } else {
        left = 0;
    }
    rows = shown(columns, layout);
    return std::to_string(static_cast<int>(scanner.stop())) + " " + std::to_string(left + scanner.resume());
}

// The same rows at once and in two pieces, and nothing remembered of the texts before.
void compare(const std::string& text, std::size_t cut, const Layout& layout, Scanner& scanner) {
    std::string rows;
    std::string rows_of_two;
    std::string rows_of_fresh;
    const std::string end = at_once(text, layout, scanner, rows);
    const std::string end_of_two = in_two(text, cut, layout, scanner, rows_of_two);
    expect(rows == rows_of_two, "a text in two pieces gives the same rows");
    expect(end == end_of_two, "a text in two pieces ends at the same place");
    Scanner fresh(layout);
    expect(end == at_once(text, layout, fresh, rows_of_fresh) && rows == rows_of_fresh, "nothing is remembered");
}

constexpr unsigned kCompared = 64;  // one input in so many: comparing rows costs fifty times as much as scanning them

void run(const std::uint8_t* data, std::size_t size) {
    static const Layout layout = fuzz_layout();
    static Scanner scanner(layout);  // used again, as in a program: nothing of one text may show in the next
    if (size < 2) {
        return;
    }
    const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
    const std::size_t cut = text.empty() ? 0 : (data[0] * 256u + data[1]) % (text.size() + 1);
    const auto buffer = padded(text);
    scanner.scan(buffer.get(), 0, text.size(), State::first);
    check(scanner, 0, text.size());
    const std::size_t boundary = last_boundary(buffer.get(), 0, text.size(), "\"ph\"", 4);
    expect(boundary <= text.size(), "a boundary within the text");
    if (data[0] % kCompared == 0) {
        compare(text, cut, layout, scanner);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    run(data, size);
    return 0;
}

#ifdef STEPSCOPE_OWN_MAIN  // for compilers without libFuzzer: mutates the seeds blindly, for the seconds given

#include <chrono>
#include <fstream>
#include <iterator>
#include <random>

namespace {

constexpr std::size_t kShort = 400;  // bytes: a damaged event or three, a hundred times as many tries as with a file
constexpr unsigned kWhole = 256;     // one input in so many is a whole file
constexpr std::size_t kTold = 100'000;

// A seed, or mostly a few of its events: two bytes that say where the text is cut, then the text.
std::string chosen(const std::vector<std::string>& seeds, std::mt19937_64& chance) {
    const std::string& seed = seeds[chance() % seeds.size()];
    std::string text{static_cast<char>(chance()), static_cast<char>(chance())};
    if (seed.size() > kShort && chance() % kWhole != 0) {
        const std::size_t from = seed.find('{', chance() % (seed.size() - kShort));
        text.append(seed, from == std::string::npos ? 0 : from, kShort / 4 + chance() % kShort);
    } else {
        text += seed;
    }
    return text;
}

std::string damaged(std::string text, const std::vector<std::string>& seeds, std::mt19937_64& chance) {
    for (std::size_t changes = chance() % 8; changes > 0 && !text.empty(); --changes) {
        const std::string& other = seeds[chance() % seeds.size()];
        const std::size_t from = other.empty() ? 0 : chance() % other.size();
        text.replace(chance() % text.size(), chance() % 16, other, from, chance() % 24);
        if (!text.empty()) {
            text[chance() % text.size()] = static_cast<char>(chance());
        }
    }
    return text;
}

}  // namespace

int main(int count, char** arguments) {
    std::vector<std::string> seeds;
    for (int i = 3; i < count; ++i) {
        std::ifstream file(arguments[i], std::ios::binary);
        seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    std::mt19937_64 chance(std::strtoull(arguments[2], nullptr, 10));
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(arguments[1]));
    std::size_t inputs = 0;
    while (std::chrono::steady_clock::now() < until) {
        const std::string text = damaged(chosen(seeds, chance), seeds, chance);
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
        if (++inputs % kTold == 0) {  // what has been tried is known if it is ended
            std::printf("%zu inputs\n", inputs);
            std::fflush(stdout);
        }
    }
    std::printf("%zu inputs\n", inputs);
    return 0;
}

#endif
