/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * import.c - a function that MPICH's library calls is another one from now on, see import.h.
 */
#include "import.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What the names of its files begin with: of its binary interface, and as Debian has it. */
static const char *const libraries[] = {"libmpi.so.12", "libmpi.so.0", "libmpich"};

struct wanted {
	const char *name;
	uintptr_t function;
	int places;   /* written */
	bool refused; /* one could not be */
};

#if defined(__x86_64__)
enum { IMPORT_CALL = R_X86_64_JUMP_SLOT, IMPORT_DATA = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { IMPORT_CALL = R_AARCH64_JUMP_SLOT, IMPORT_DATA = R_AARCH64_GLOB_DAT };
#else
enum { IMPORT_CALL = -1, IMPORT_DATA = -1 }; /* calls stay as they are */
#endif

/* What of an object is needed to find its imports, and what is looked for. */
struct object {
	struct wanted *wanted;
	const struct dl_phdr_info *info;
	const ElfW(Sym) *symbols;
	const char *names;
	struct {
		const ElfW(Rela) *first;
		size_t size; /* bytes */
	} tables[2];         /* of calls, and of all else */
};

static const void *import_at(const struct object *object, ElfW(Addr) address)
{
	/* The linker of some systems leaves addresses in the dynamic section as they are in the file. */
	return (const void *)(address < object->info->dlpi_addr ? object->info->dlpi_addr + address : address);
}

static void import_read(struct object *object, const ElfW(Dyn) *entry)
{
	for (; entry->d_tag != DT_NULL; entry++) {
		switch (entry->d_tag) {
		case DT_SYMTAB:
			object->symbols = import_at(object, entry->d_un.d_ptr);
			break;
		case DT_STRTAB:
			object->names = import_at(object, entry->d_un.d_ptr);
			break;
		case DT_JMPREL:
			object->tables[0].first = import_at(object, entry->d_un.d_ptr);
			break;
		case DT_PLTRELSZ:
			object->tables[0].size = entry->d_un.d_val;
			break;
		case DT_RELA:
			object->tables[1].first = import_at(object, entry->d_un.d_ptr);
			break;
		case DT_RELASZ:
			object->tables[1].size = entry->d_un.d_val;
			break;
		default:
			break;
		}
	}
}

/* Whether the linker has made a page unwritable: those that such a segment fills to their end. */
static bool import_is_sealed(const struct dl_phdr_info *info, uintptr_t start, uintptr_t page)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + header->p_vaddr;

		if (header->p_type == PT_GNU_RELRO && start + page > from && start + page <= from + header->p_memsz)
			return true;
	}
	return false;
}

static void import_write(const struct object *object, uintptr_t *place)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)place & ~(page - 1);
	bool sealed = import_is_sealed(object->info, start, page);

	if (sealed && mprotect((void *)start, page, PROT_READ | PROT_WRITE) != 0) {
		object->wanted->refused = true;
		return;
	}
	__atomic_store_n(place, object->wanted->function, __ATOMIC_RELAXED);
	object->wanted->places++;
	if (sealed)
		mprotect((void *)start, page, PROT_READ);
}

static void import_take(const struct object *object)
{
	for (int t = 0; t < 2; t++) {
		const ElfW(Rela) *end = object->tables[t].first + object->tables[t].size / sizeof(ElfW(Rela));

		for (const ElfW(Rela) *import = object->tables[t].first; import && import < end; import++) {
			int kind = (int)ELF64_R_TYPE(import->r_info);
			const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(import->r_info)];

			if ((kind == IMPORT_CALL || kind == IMPORT_DATA) &&
			    strcmp(object->names + symbol->st_name, object->wanted->name) == 0)
				import_write(object, (uintptr_t *)(object->info->dlpi_addr + import->r_offset));
		}
	}
}

static bool import_is_mpich(const char *path)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
	bool is_mpich = false;

	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		is_mpich |= strncmp(file, libraries[i], strlen(libraries[i])) == 0;
	return is_mpich;
}

static int import_seen(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct object object = {.wanted = arg, .info = info};

	(void)size;
	if (!import_is_mpich(info->dlpi_name))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			import_read(&object, (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
	if (object.symbols && object.names)
		import_take(&object);
	return 0;
}

int import_set(const char *name, void (*function)(void))
{
	struct wanted wanted = {.name = name, .function = (uintptr_t)function};

	dl_iterate_phdr(import_seen, &wanted);
	return wanted.refused ? -1 : wanted.places;
}
