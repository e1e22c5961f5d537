// SPDX-License-Identifier: BSD-3-Clause
// heap-new: C++ under the library that thole run --shared-heap preloads: what new gives lies in arenas where it is large.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <vector>

static bool is_near(const void *memory)
{
	return reinterpret_cast<std::uintptr_t>(memory) >> 45 == 1; // arena_is_near
}

struct alignas(4096) Page {
	char bytes[4096];
};

int main()
{
	std::vector<double> numbers(1 << 20, 1.5);
	std::vector<Page> pages(64);
	std::unique_ptr<int> small(new int(7));
	std::map<int, std::string> texts;

	for (int i = 0; i < 20; i++)
		texts[i] = std::string(static_cast<std::size_t>(1) << i, 'x');
	for (int i = 0; i < 100000; i++)
		numbers.push_back(1.5);
	if (!is_near(numbers.data()) || !is_near(pages.data()) || is_near(small.get()) || !is_near(texts[19].data()))
		return 1;
	if (reinterpret_cast<std::uintptr_t>(pages.data()) % 4096 != 0)
		return 2;
	if (std::accumulate(numbers.begin(), numbers.end(), 0.0) != 1.5 * ((1 << 20) + 100000))
		return 3;
	try {
		volatile std::size_t most = static_cast<std::size_t>(1) << 46;

		::operator delete(::operator new(most)); // the C library's refusal, as an exception
		return 4;
	} catch (const std::bad_alloc &) {
		return texts[10] == std::string(1 << 10, 'x') ? 0 : 5;
	}
}
