// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
/*
 * device: /dev/thole.
 *
 * Owns what user space asks and may ask: descriptors, ids, checks of arguments, which are copied once; and the module's
 * beginning and end. What is asked for is done by pages.c and attach.c.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "thole.h"

#include "attach.h"
#include "compat.h"
#include "ether.h"
#include "mover.h"
#include "pages.h"
#include "pressure.h"

struct descriptor {
	struct holder *holder;
	struct xarray regions; /* by id; each has a reference */
	struct mover *mover;
	struct work_struct ending;
};

static struct workqueue_struct *enders;

static struct pages *device_region(struct descriptor *descriptor, u32 id)
{
	struct pages *pages;

	xa_lock(&descriptor->regions);
	pages = xa_load(&descriptor->regions, id);
	if (pages)
		kref_get(&pages->references);
	xa_unlock(&descriptor->regions);
	return pages;
}

/* The segments that a program names, as many as are allowed, in memory of the program's. */
static struct region_segment *device_segments(const struct thole_driver_declare *declare)
{
	const struct thole_driver_segment __user *from = u64_to_user_ptr(declare->segments);
	struct region_segment *segments;
	u32 i;

	if (!declare->count || declare->count > THOLE_DRIVER_SEGMENTS)
		return ERR_PTR(-EINVAL);
	segments = kvcalloc(declare->count, sizeof(*segments), GFP_KERNEL_ACCOUNT);
	if (!segments)
		return ERR_PTR(-ENOMEM);
	for (i = 0; i < declare->count; i++) {
		struct thole_driver_segment segment;

		if (copy_from_user(&segment, from + i, sizeof(segment)) ||
		    !access_ok(u64_to_user_ptr(segment.address), segment.length)) {
			kvfree(segments);
			return ERR_PTR(-EFAULT);
		}
		/* access_ok and pinning take a pointer with a tag (arm64's top byte, x86's LAM), but what tells of
		 * changed mappings goes by addresses without: tagged, a region would keep what was unmapped. */
		segments[i].address = untagged_addr(segment.address);
		segments[i].length = segment.length;
	}
	return segments;
}

static void device_forget_region(struct pages *pages)
{
	u32 *word = pages->holder->shared->generations + pages->id;

	pages_forget(pages);
	attach_withdraw(pages); /* after which nobody offers it again: it is forgotten */
	WRITE_ONCE(*word, *word + 1);
	pages_put(pages);
}

static long device_forget(struct descriptor *descriptor, unsigned long id)
{
	struct pages *pages = id < THOLE_DRIVER_REGIONS ? xa_erase(&descriptor->regions, id) : NULL;

	if (!pages)
		return -ENOENT;
	device_forget_region(pages);
	return 0;
}

static long device_declare(struct descriptor *descriptor, void __user *argument)
{
	struct thole_driver_declare declare;
	struct region_segment *segments;
	struct pages *pages;
	int status;

	if (copy_from_user(&declare, argument, sizeof(declare)))
		return -EFAULT;
	if (declare.flags & ~(THOLE_DRIVER_WRITE | THOLE_DRIVER_WATCH | THOLE_DRIVER_KEEP) || declare.reserved)
		return -EINVAL;
	segments = device_segments(&declare);
	if (IS_ERR(segments))
		return PTR_ERR(segments);
	pages = pages_new(descriptor->holder, segments, declare.count, declare.flags);
	if (IS_ERR(pages))
		return PTR_ERR(pages);
	/* The id is written before others find the region. They may forget it at once: our reference keeps it. */
	kref_get(&pages->references);
	status = xa_alloc(&descriptor->regions, &pages->id, pages, XA_LIMIT(1, THOLE_DRIVER_REGIONS - 1),
			  GFP_KERNEL_ACCOUNT);
	declare.id = pages->id;
	if (status) {
		pages_forget(pages);
		pages_put(pages);
	} else if (copy_to_user(argument, &declare, sizeof(declare))) {
		device_forget(descriptor, pages->id);
		status = -EFAULT;
	}
	pages_put(pages);
	return status;
}

static long device_pin(struct descriptor *descriptor, void __user *argument)
{
	struct thole_driver_pin pin;
	struct pages *pages;
	int status = 0;

	if (copy_from_user(&pin, argument, sizeof(pin)))
		return -EFAULT;
	if (pin.flags & ~THOLE_DRIVER_BACKGROUND)
		return -EINVAL;
	pages = device_region(descriptor, pin.id);
	if (!pages)
		return -ENOENT;
	if (!region_holds(&pages->region, 0, pin.bytes))
		status = -EINVAL;
	else if (pin.flags & THOLE_DRIVER_BACKGROUND)
		status = pages_pin_later(pages, pin.bytes);
	else if (pin.bytes)
		status = pages_pin(pages, pin.bytes, pin.bytes);
	read_lock_bh(&pages->lock);
	pin.pages = pages->region.pages;
	pin.pinned = pages->region.pinned;
	pin.state = pages->region.state;
	pin.generation = pages->region.generation;
	read_unlock_bh(&pages->lock);
	pages_put(pages);
	if (!status && copy_to_user(argument, &pin, sizeof(pin)))
		status = -EFAULT;
	return status;
}

static long device_copy(struct descriptor *descriptor, void __user *argument)
{
	struct thole_driver_copy copy;
	struct pages *pages;
	long status;

	if (copy_from_user(&copy, argument, sizeof(copy)))
		return -EFAULT;
	if (copy.flags & ~THOLE_DRIVER_INTO)
		return -EINVAL;
	pages = device_region(descriptor, copy.id);
	if (!pages)
		return -ENOENT;
	status = pages_copy(pages, &copy);
	pages_put(pages);
	return status;
}

static long device_bind(struct descriptor *descriptor, void __user *argument)
{
	struct thole_driver_bind bind;
	int status;

	if (copy_from_user(&bind, argument, sizeof(bind)))
		return -EFAULT;
	status = ether_bind(descriptor->mover, &bind);
	if (!status && copy_to_user(argument, &bind, sizeof(bind))) {
		ether_unbind(&descriptor->mover->ether);
		status = -EFAULT;
	}
	return status;
}

static long device_offer(struct descriptor *descriptor, void __user *argument)
{
	struct thole_driver_offer offer;
	struct pages *pages;
	long status;

	if (copy_from_user(&offer, argument, sizeof(offer)))
		return -EFAULT;
	pages = device_region(descriptor, offer.id);
	if (!pages)
		return -ENOENT;
	status = attach_offer(pages, &offer);
	if (!status && copy_to_user(argument, &offer, sizeof(offer))) {
		attach_withdraw(pages);
		status = -EFAULT;
	}
	pages_put(pages);
	return status;
}

static long device_withdraw(struct descriptor *descriptor, unsigned long id)
{
	struct pages *pages = id < THOLE_DRIVER_REGIONS ? device_region(descriptor, id) : NULL;
	long status;

	if (!pages)
		return -ENOENT;
	status = attach_withdraw(pages);
	pages_put(pages);
	return status;
}

static long device_view(void __user *argument)
{
	struct thole_driver_attach attach;
	struct file *file;

	if (copy_from_user(&attach, argument, sizeof(attach)))
		return -EFAULT;
	if (attach.flags & ~THOLE_DRIVER_WRITE || attach.reserved)
		return -EINVAL;
	attach.fd = get_unused_fd_flags(O_CLOEXEC);
	if (attach.fd < 0)
		return attach.fd;
	file = attach_view(&attach);
	if (IS_ERR(file)) {
		put_unused_fd(attach.fd);
		return PTR_ERR(file);
	}
	if (copy_to_user(argument, &attach, sizeof(attach))) {
		put_unused_fd(attach.fd);
		fput(file);
		return -EFAULT;
	}
	fd_install(attach.fd, file);
	return 0;
}

/* ---- Bulk ------------------------------------------------------------------------------------ */

static long device_socket(struct descriptor *descriptor, void __user *argument)
{
	struct thole_driver_socket socket;

	return copy_from_user(&socket, argument, sizeof(socket)) ? -EFAULT :
								   mover_take_socket(descriptor->mover, &socket);
}

static long device_connection(struct descriptor *descriptor, void __user *argument)
{
	struct thole_driver_connection connection;
	long status;

	if (copy_from_user(&connection, argument, sizeof(connection)))
		return -EFAULT;
	status = mover_add_peer(descriptor->mover, &connection);
	if (!status && copy_to_user(argument, &connection, sizeof(connection))) {
		mover_drop_peer(descriptor->mover, connection.id);
		status = -EFAULT;
	}
	return status;
}

static long device_window(struct descriptor *descriptor, void __user *argument)
{
	struct thole_driver_window window;
	struct pages *pages;
	long status;

	if (copy_from_user(&window, argument, sizeof(window)))
		return -EFAULT;
	pages = device_region(descriptor, window.region);
	if (!pages)
		return -ENOENT;
	status = pages_foresee(pages);
	if (!status)
		status = mover_serve_window(descriptor->mover, &window, pages);
	pages_put(pages);
	return status;
}

static long device_fetch(struct descriptor *descriptor, void __user *argument)
{
	struct thole_driver_fetch fetch;
	struct pages *pages;
	long status;

	if (copy_from_user(&fetch, argument, sizeof(fetch)))
		return -EFAULT;
	pages = device_region(descriptor, fetch.region);
	if (!pages)
		return -ENOENT;
	status = pages_foresee(pages);
	if (!status)
		status = mover_fetch_begin(descriptor->mover, &fetch, pages);
	pages_put(pages);
	return status;
}

static long device_end(struct descriptor *descriptor, void __user *argument,
		       int (*end)(struct mover *mover, const struct thole_driver_name *name))
{
	struct thole_driver_name name;

	return copy_from_user(&name, argument, sizeof(name)) ? -EFAULT : end(descriptor->mover, &name);
}

static long device_mover(struct descriptor *descriptor, unsigned int command, unsigned long argument)
{
	void __user *memory = (void __user *)argument;

	switch (command) {
	case THOLE_DRIVER_SOCKET:
		return device_socket(descriptor, memory);
	case THOLE_DRIVER_SOCKET_BACK:
		return mover_give_back(descriptor->mover, argument);
	case THOLE_DRIVER_CONNECTION:
		return device_connection(descriptor, memory);
	case THOLE_DRIVER_CONNECTION_END:
		return mover_drop_peer(descriptor->mover, argument);
	case THOLE_DRIVER_WINDOW:
		return device_window(descriptor, memory);
	case THOLE_DRIVER_WINDOW_END:
		return device_end(descriptor, memory, mover_serve_end);
	case THOLE_DRIVER_FETCH:
		return device_fetch(descriptor, memory);
	case THOLE_DRIVER_FETCH_END:
		return device_end(descriptor, memory, mover_fetch_end);
	}
	return -ENOTTY;
}

/* ---- The file -------------------------------------------------------------------------------- */

static long device_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct descriptor *descriptor = file->private_data;
	void __user *memory = (void __user *)argument;

	if (current->mm != descriptor->holder->mm)
		return -EPERM;
	if (command == THOLE_DRIVER_SEND) /* the shortest way */
		return ether_send(&descriptor->mover->ether, argument);
	holder_permit(descriptor->holder);
	switch (command) {
	case THOLE_DRIVER_DECLARE:
		return device_declare(descriptor, memory);
	case THOLE_DRIVER_FORGET:
		return device_forget(descriptor, argument);
	case THOLE_DRIVER_PIN:
		return device_pin(descriptor, memory);
	case THOLE_DRIVER_COPY:
		return device_copy(descriptor, memory);
	case THOLE_DRIVER_BIND:
		return device_bind(descriptor, memory);
	case THOLE_DRIVER_UNBIND:
		return ether_unbind(&descriptor->mover->ether);
	case THOLE_DRIVER_ROOM:
		events_flush(&descriptor->holder->events);
		return 0;
	case THOLE_DRIVER_OFFER:
		return device_offer(descriptor, memory);
	case THOLE_DRIVER_WITHDRAW:
		return device_withdraw(descriptor, argument);
	case THOLE_DRIVER_ATTACH:
		return device_view(memory);
	}
	return device_mover(descriptor, command, argument);
}

static int device_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct descriptor *descriptor = file->private_data;

	if (vma->vm_mm != descriptor->holder->mm)
		return -EPERM;
	switch ((u64)vma->vm_pgoff << PAGE_SHIFT) {
	case THOLE_DRIVER_AT_SHARED:
		return vma->vm_flags & VM_WRITE ? -EPERM : mapped_show(&descriptor->holder->mapped, vma);
	case THOLE_DRIVER_AT_EVENTS:
		return events_mmap(&descriptor->holder->events, vma);
	case THOLE_DRIVER_AT_ETHER:
		return ether_mmap(&descriptor->mover->ether, vma);
	case THOLE_DRIVER_AT_WAYS:
		return mover_mmap(descriptor->mover, vma);
	}
	return -EINVAL;
}

static __poll_t device_poll(struct file *file, poll_table *table)
{
	struct descriptor *descriptor = file->private_data;
	__poll_t ready = events_poll(&descriptor->holder->events, file, table);

	return ether_ready(&descriptor->mover->ether) ? EPOLLIN | EPOLLRDNORM : ready;
}

static int device_open(struct inode *inode, struct file *file)
{
	struct descriptor *descriptor = kzalloc(sizeof(*descriptor), GFP_KERNEL_ACCOUNT);

	if (!descriptor)
		return -ENOMEM;
	descriptor->holder = holder_new();
	if (descriptor->holder)
		descriptor->mover = mover_new(descriptor->holder);
	if (!descriptor->mover) {
		if (descriptor->holder)
			holder_put(descriptor->holder);
		kfree(descriptor);
		return -ENOMEM;
	}
	xa_init_flags(&descriptor->regions, XA_FLAGS_ALLOC1);
	file->private_data = descriptor;
	return 0;
}

/* Whether the process that opened the descriptor has ended, or is another program. A thread that ends has no memory
 * either, and may have descriptors of its own to close: it is the last one's end that counts. */
static bool descriptor_is_over(const struct descriptor *descriptor)
{
	const struct holder *holder = descriptor->holder;

	if (task_tgid(current) != holder->process)
		return false;
	return current->mm ? current->mm != holder->mm : atomic_read(&current->signal->live) == 0;
}

/* Somebody closes a number of the descriptor's. If nobody can use it any more, the endpoint is given up here: the
 * descriptor ends with the last mapping of it, which may be later, since there are others who hold a process's memory
 * for a while, such as who looks at it, and who waits for the owner's end may take his place at once. */
static int device_flush(struct file *file, fl_owner_t files)
{
	struct descriptor *descriptor = file->private_data;

	if (descriptor_is_over(descriptor))
		ether_unbind(&descriptor->mover->ether);
	return 0;
}

static void descriptor_end(struct descriptor *descriptor)
{
	struct pages *pages;
	unsigned long id;

	ether_unbind(&descriptor->mover->ether);
	mover_end(descriptor->mover);
	xa_for_each(&descriptor->regions, id, pages)
		device_forget_region(pages);
	xa_destroy(&descriptor->regions);
	holder_put(descriptor->holder);
	kfree(descriptor);
}

static void descriptor_ending(struct work_struct *work)
{
	descriptor_end(container_of(work, struct descriptor, ending));
	module_put(THIS_MODULE); /* who unloads it waits for the rest of this (enders_stop) */
}

/* It may wait for the lock of a socket, which a program holds that sends from memory that never comes. A program waits
 * itself; the kernel's thread, which ends what was left in messages that nobody can receive, has all other files behind
 * this one. */
static int device_release(struct inode *inode, struct file *file)
{
	struct descriptor *descriptor = file->private_data;

	if (current->flags & PF_KTHREAD) {
		__module_get(THIS_MODULE);
		INIT_WORK(&descriptor->ending, descriptor_ending);
		queue_work(enders, &descriptor->ending);
	} else {
		descriptor_end(descriptor);
	}
	return 0;
}

static const struct file_operations device_calls = {
	.owner = THIS_MODULE,
	.open = device_open,
	.flush = device_flush,
	.release = device_release,
	.unlocked_ioctl = device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = device_mmap,
	.poll = device_poll,
};

static unsigned int mode = 0666;
module_param(mode, uint, 0444);
MODULE_PARM_DESC(mode, "of /dev/thole, where udev's rules say nothing of it");

/* What it gives is the user's own memory, within the user's own limits. */
static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "thole",
	.fops = &device_calls,
};

static int enders_start(void)
{
	enders = alloc_workqueue("thole_end", WQ_UNBOUND, 0);
	return enders ? 0 : -ENOMEM;
}

static void enders_stop(void)
{
	destroy_workqueue(enders);
}

/* What the module has, in the order in which it begins. */
static const struct {
	int (*start)(void);
	void (*stop)(void);
} parts[] = {
	{pages_start, pages_stop},
	{pressure_start, pressure_stop},
	{ether_start, ether_stop},
	{mover_start, mover_stop},
	{enders_start, enders_stop},
};

static void device_stop_parts(int count)
{
	while (count > 0)
		parts[--count].stop();
}

static int __init device_start(void)
{
	int status = 0, i;

	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		status = parts[i].start();
		if (status)
			break;
	}
	device.mode = mode & 0777;
	if (!status)
		status = misc_register(&device);
	if (status)
		device_stop_parts(i);
	return status;
}

static void __exit device_stop(void)
{
	misc_deregister(&device);
	device_stop_parts(ARRAY_SIZE(parts));
}

module_init(device_start);
module_exit(device_stop);
MODULE_LICENSE("Dual BSD/GPL");
MODULE_AUTHOR("the Thole authors");
MODULE_VERSION(__stringify(THOLE_VERSION_MAJOR) "." __stringify(THOLE_VERSION_MINOR) "."
	       __stringify(THOLE_VERSION_PATCH));
MODULE_DESCRIPTION("message passing: pinned regions, bulk over UDP, small frames, views of peers");
