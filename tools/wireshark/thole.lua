-- SPDX-License-Identifier: BSD-3-Clause
--[[
Dissectors for Wireshark and tshark of both codecs of Thole: `thole` (native; over UDP and over Ethernet) and `mxoe` (over
Ethernet, EtherType 0x86DF; both modes). Every field has a name, and a field that can be filtered for.

    tshark -X lua_script:thole.lua ...                    or link or copy it to the plugins folder (Help, About, Folders)

Native frames over UDP are recognised by their looks; a port in the preferences names them for sure. What is sent again, and
what is refused, is marked (thole.resent, thole.nack, mxoe.resent, mxoe.nack). One UDP packet of a capture may hold many
frames, where the kernel or the network card cut it up only later; they are shown one by one.

docs/PROTOCOL.md has the same fields: both are made of src/transport/datagram/wire/*.fields by tools/fields.py, which puts the
tables of packets in here. A field of a capture that was cut short is left out.
]]

-- ---- The packets, as src/transport/datagram/wire/*.fields describe them -------------------------------------------

-- fields: what Wireshark knows them by. Each packet: the length of what it always has, and rows of {name, at = offset (nil: behind
-- all others), size (0: what is left), is = always this, parts = {name, offset, size}, when = whether it is there}.
-- @tables@

local NETWORKS = { [0] = "none", [1] = "IPv4", [2] = "IPv6", [3] = "mxoe", [4] = "Ethernet" }

-- ---- What both dissectors need ------------------------------------------------------------------------------

-- Fields by name, from rows of {name, what is shown, type, base, names of values, mask, meaning}.
local function make_fields(proto, prefix, rows)
    local fields, list = {}, {}
    for _, row in ipairs(rows) do
        local name, text, kind, shown, values, mask, meaning = row[1], row[2], row[3], row[4], row[5], row[6], row[7]
        fields[name] = ProtoField.new(text, prefix .. "." .. name, kind, values, shown, mask, meaning)
        list[#list + 1] = fields[name]
    end
    proto.fields = list
    return fields
end

-- The names of a field's values, the numbers of the names, and packets whose fields are found by their names too.
local function names_of(codec, field)
    local names, numbers = {}, {}
    for _, row in ipairs(codec.fields) do
        if row[1] == field then
            names = row[5]
        end
    end
    for number, name in pairs(names) do
        numbers[name] = number
    end
    return names, numbers
end

local function prepare(codec, begin)
    for name, packet in pairs(codec) do
        if type(packet) == "table" and name ~= "fields" then
            packet.begin, packet.by_name = begin, {}
            for _, row in ipairs(packet) do
                packet.by_name[row[1]] = row
                for _, inner in ipairs(row.at and row.parts or {}) do
                    packet.by_name[inner[1]] = { inner[1], at = row.at + inner[2], size = inner[3] }
                end
            end
        end
    end
end

-- Bytes of counter and tag in the native frame that is looked at: what is behind its front has moved by them.
local shift = 0

local function moved(offset)
    return offset >= NATIVE.moved and offset + shift or offset
end

-- A part of the frame, nil where the capture ends before it.
local function part(tvb, offset, length)
    offset = moved(offset)
    if offset + length <= tvb:len() then
        return tvb(offset, length)
    end
    return nil
end

-- Where a field of a packet is, by its name; its number, its digits.
local function range_of(tvb, packet, name)
    local row = packet.by_name[name]
    return part(tvb, packet.begin + row.at, row.size)
end

local function number(tvb, packet, name)
    local range = range_of(tvb, packet, name)
    return range and range:uint() or 0
end

local function hex(tvb, packet, ...)
    local text = ""
    for _, name in ipairs({ ... }) do
        local range = range_of(tvb, packet, name)
        text = text .. (range and tostring(range:bytes()) or "")
    end
    return text
end

-- Add a packet's fields but those of another, which are there already. Returns where what is left begins.
local function add_fields(tree, fields, tvb, packet, but)
    local behind = packet.begin + packet.length
    local function value(name)
        return number(tvb, packet, name)
    end
    for _, row in ipairs(packet) do
        local skipped = but and but.by_name[row[1]]
        if not skipped and (not row.when or row.when(value)) then
            local range = row.size > 0 and part(tvb, row.at and packet.begin + row.at or behind, row.size)
            local sub = range and tree:add(fields[row[1]], range)
            for _, inner in ipairs(range and row.parts or {}) do
                sub:add(fields[inner[1]], range(inner[2], inner[3]))
            end
            behind = behind + (row.at and 0 or row.size)
        end
    end
    return behind
end

-- Payload, of which the capture may have only the front.
local function add_payload(tree, field, tvb, offset, length)
    offset = moved(offset)
    local there = math.min(length, tvb:len() - offset)
    if there > 0 then
        tree:add(field, tvb(offset, there)):append_text(string.format(" (%d bytes)", length))
    end
end

-- What was seen before: each key's first frame, and for each place in each frame what it repeats. Wireshark dissects a
-- frame many times, but the first time in order.
local seen, repeats, epochs = {}, {}, {}

local function forget()
    seen, repeats, epochs = {}, {}, {}
end

-- The frame in which this key was seen first, if that is another place than this one.
local function seen_before(pinfo, place, key)
    local here = pinfo.number .. ":" .. place
    if not pinfo.visited then
        if seen[key] then
            repeats[here] = repeats[here] or seen[key]
        else
            seen[key] = pinfo.number
        end
    end
    return repeats[here]
end

-- mxoe's pulls have numbers that come back for other windows: a counter that tells them apart.
local function epoch_of(key, window)
    local epoch = epochs[key] or { window = window, count = 0 }
    if window and epoch.window ~= window then
        epoch = { window = window, count = epoch.count + 1 }
    end
    epochs[key] = epoch
    return epoch.count
end

local function mark_resent(tree, expert, first)
    if first then
        tree:add_proto_expert_info(expert, "Seen before, in frame " .. first)
    end
end

-- ---- Native -------------------------------------------------------------------------------------------------

local thole = Proto("thole", "Thole")

for _, row in ipairs({
    { "padding", "Padding", ftypes.BYTES, base.NONE },
    { "connect.network.kind", "Kind", ftypes.UINT8, base.DEC, NETWORKS },
    { "connect.network.port", "UDP port", ftypes.UINT16, base.DEC },
    { "connect.network.ipv4", "IPv4", ftypes.IPv4, base.NONE },
    { "connect.network.mac", "MAC", ftypes.ETHER, base.NONE },
    { "connect.network.ipv6", "IPv6", ftypes.IPv6, base.NONE },
    { "connect.network.number", "Endpoint number", ftypes.UINT8, base.DEC },
}) do
    table.insert(NATIVE.fields, row)
end
local T = make_fields(thole, "thole", NATIVE.fields)
prepare(NATIVE, 0)

local TYPES, TYPE = names_of(NATIVE, "type")
local KINDS, KIND = names_of(NATIVE, "record.kind")
local REASONS = names_of(NATIVE, "nack.reason")
local STATUSES = names_of(NATIVE, "connect.status")
local HEAD = NATIVE.HEAD
local VERSION = HEAD.by_name.version.is
local LEAST = 32 -- bytes of the shortest frame

local t_resent = ProtoExpert.new("thole.resent", "Sent again", expert.group.SEQUENCE, expert.severity.NOTE)
local t_nack = ProtoExpert.new("thole.nack", "Refused", expert.group.RESPONSE_CODE, expert.severity.WARN)
local t_status = ProtoExpert.new("thole.refused", "Connection refused", expert.group.RESPONSE_CODE, expert.severity.WARN)
local t_gap = ProtoExpert.new("thole.gap", "Frames are missing", expert.group.SEQUENCE, expert.severity.NOTE)
local t_checksum = ProtoExpert.new("thole.checksum.bad", "Wrong checksum", expert.group.CHECKSUM, expert.severity.ERROR)
local t_malformed = ProtoExpert.new("thole.malformed", "No lawful frame", expert.group.MALFORMED, expert.severity.ERROR)
thole.experts = { t_resent, t_nack, t_status, t_gap, t_checksum, t_malformed }

thole.prefs.ports = Pref.range("UDP ports", "", "UDP ports of Thole, beside what looks like it", 65535)
thole.prefs.ethertype = Pref.uint("EtherType", 0x88B5, "EtherType of raw frames")
thole.prefs.heuristic = Pref.bool("Recognise by looks", true, "Look for native frames on all UDP ports")
thole.prefs.check = Pref.bool("Check checksums", true, "Compute the CRC32C of frames that carry it")

local SHORT = 64 -- frames below it say how long they are

-- Flags, by their names; all of them together.
local FLAGS, FLAGS_ALL = {}, 0
for _, row in ipairs(NATIVE.fields) do
    local name = row[1]:match("^flags%.(%w+)$")
    if name then
        FLAGS[name], FLAGS_ALL = row[6], FLAGS_ALL + row[6]
    end
end

local function has(tvb, flag)
    return bit.band(number(tvb, HEAD, "flags"), FLAGS[flag]) ~= 0
end

local crc_table

-- CRC32C of a whole frame, its field for the checksum taken as 0.
local function crc32c(tvb, length)
    if not crc_table then
        crc_table = {}
        for i = 0, 255 do
            local value = i
            for _ = 1, 8 do
                local low = bit.band(value, 1)
                value = bit.rshift(value, 1)
                if low == 1 then
                    value = bit.bxor(value, 0x82F63B78)
                end
            end
            crc_table[i] = value
        end
    end
    local bytes, crc, sum = tvb:range(0, length):bytes(), bit.bnot(0), HEAD.by_name["checksum"]
    for i = 0, length - 1 do
        local byte = (i >= sum.at and i < sum.at + sum.size) and 0 or bytes:get_index(i)
        crc = bit.bxor(bit.rshift(crc, 8), crc_table[bit.band(bit.bxor(crc, byte), 0xff)])
    end
    return bit.bnot(crc)
end

-- The packet that a frame is, by its type; nil if there is none.
local function packet_of(tvb)
    local name = TYPES[number(tvb, HEAD, "type")]
    if name ~= "record" then
        return name and NATIVE[name:upper()]
    end
    local kind = number(tvb, NATIVE.RECORD, "record.kind")
    return KINDS[kind] and NATIVE[kind == KIND.piece and "RECORD_PIECE" or "RECORD_FIRST"]
end

-- Bytes of its head.
local function head_of(tvb, packet)
    local length = packet.length
    local function value(name)
        return number(tvb, packet, name)
    end
    for _, row in ipairs(packet) do
        if not row.at and (not row.when or row.when(value)) then
            length = length + row.size
        end
    end
    return length
end

local function add_network(tree, range)
    local kind = range(0, 1):uint()
    tree:add(T["connect.network.kind"], range(0, 1))
    if kind == 1 or kind == 2 then
        tree:add(T["connect.network.port"], range(2, 2))
    end
    if kind == 1 then
        tree:add(T["connect.network.ipv4"], range(4, 4))
    elseif kind == 2 then
        tree:add(T["connect.network.ipv6"], range(4, 16))
    elseif kind == 3 then
        tree:add(T["connect.network.number"], range(4, 1))
    end
    if kind == 1 or kind == 3 or kind == 4 then
        tree:add(T["connect.network.mac"], range(8, 6))
    end
end

-- What each type's line in the list of packets says, a key by which the same frame is known again, and what is to be marked. `v`
-- and `h` are the number and the digits of a field by its name; `length` is without counter and tag.
local types = {}

function types.record(v, h, _, _, length, head)
    return string.format("RECORD %s seq=%d ack=%d credit=%d len=%d", KINDS[v("record.kind")]:upper(), v("sequence"), v("ack"),
        v("credit"), length - head), h("sequence")
end

function types.ack(v, h, tree)
    if h("ack.held"):find("[1-9A-F]") then
        tree:add_proto_expert_info(t_gap, "Frames are missing before those held")
    end
    return string.format("ACK ack=%d credit=%d next=%d", v("ack"), v("credit"), v("sequence"))
end

function types.pull(v, h, _, long)
    return string.format("PULL transfer=%s offset=%s len=%d wanted=%s", h("transfer"), long("pull.offset"), v("pull.length"),
        h("pull.wanted")), h("pull.window", "transfer", "pull.offset", "pull.length", "pull.wanted")
end

function types.data(_, h, _, long, length, head)
    return string.format("DATA transfer=%s offset=%s len=%d", h("transfer"), long("data.offset"), length - head),
        h("transfer", "data.offset")
end

function types.nack(v, _, tree)
    local reason = REASONS[v("nack.reason")] or v("nack.reason")
    tree:add_proto_expert_info(t_nack, "Refused: " .. reason)
    return "NACK " .. reason
end

function types.close(v)
    return string.format("CLOSE seq=%d ack=%d", v("sequence"), v("ack"))
end

function types.connect(v, h, tree, _, length)
    local status = v("connect.status")
    local refused = STATUSES[status] or status
    if status ~= 0 then
        tree:add_proto_expert_info(t_status, "Connection refused: " .. refused)
    end
    return string.format("%s session=%s attempt=%d size=%d%s", TYPES[v("type")]:upper(), h("connect.session"),
        v("connect.attempt"), length, status ~= 0 and " refused: " .. refused or ""),
        h("connect.session", "connect.target", "connect.next", "connect.seen", "connect.size", "connect.bulk_port",
            "connect.attempt", "connect.status")
end

types.accept = types.connect

-- A transfer's number has a generation and does not come back, as mxoe's do: nothing has to be counted.
local function key_of(key, tvb)
    return hex(tvb, HEAD, "type", "to", "session") .. ":" .. key
end

-- Bytes of counter and tag by a frame's flags.
local function guard_of(tvb)
    return has(tvb, "sealed") and 24 or has(tvb, "tagged") and 16 or 0
end

-- Whether a frame is one; `length` is without counter and tag, and shift says how long these are.
local function lawful(tvb, length)
    local packet = packet_of(tvb)
    if length < LEAST or number(tvb, HEAD, "version") ~= VERSION or not packet or length < head_of(tvb, packet) then
        return false
    end
    if shift > 0 and (packet == NATIVE.CONNECT or packet == NATIVE.ACCEPT) then
        return false
    end
    return packet ~= NATIVE.NACK or REASONS[number(tvb, packet, "nack.reason")] ~= nil
end

local function check_sum(tvb, whole, item)
    if crc32c(tvb, whole) == bit.tobit(number(tvb, HEAD, "checksum")) then
        item:append_text(" [right]")
    else
        item:append_text(" [wrong]")
        item:add_proto_expert_info(t_checksum, "Wrong checksum")
    end
end

-- The fields of a lawful frame of `length` bytes without counter and tag. Returns its line for the list of packets.
local function native_body(tvb, pinfo, sub, length, place)
    local packet, name = packet_of(tvb), TYPES[number(tvb, HEAD, "type")]
    if tvb:len() < packet.length + shift then
        return name:upper() .. " [cut short by the capture]"
    end
    local function v(field)
        return number(tvb, packet, field)
    end
    local function h(...)
        return hex(tvb, packet, ...)
    end
    local function long(field)
        return tostring(range_of(tvb, packet, field):uint64())
    end
    local head = add_fields(sub, T, tvb, packet, HEAD)
    local network = packet.by_name["connect.network"] and range_of(tvb, packet, "connect.network")
    if network then
        add_network(sub, network)
    end
    if packet == NATIVE.CONNECT or packet == NATIVE.ACCEPT then
        if length > head and tvb:len() > head then
            sub:add(T.padding, tvb(head, math.min(length, tvb:len()) - head))
        end
    elseif packet.by_name["payload"] then
        add_payload(sub, T.payload, tvb, head, length - head)
    end
    local line, key = types[name](v, h, sub, long, length, head)
    if key then
        local first = seen_before(pinfo, place, key_of(key, tvb))
        mark_resent(sub, t_resent, first)
        line = line .. (first and " [sent again]" or "")
    end
    return line
end

-- One frame, from the start of tvb, of `length` bytes on the wire with its padding. Returns its line for the list.
local function native_parts(tvb, pinfo, tree, length, place)
    local short = number(tvb, HEAD, "short")
    local sub = tree:add(thole, tvb(0, math.min(length, tvb:len())))
    local whole = (short > 0 and short < length) and short or length
    local tag = NATIVE.TAGGED.by_name["tag"]

    add_fields(sub, T, tvb, HEAD)
    if shift > 0 and tvb:len() >= NATIVE.moved + shift then
        sub:add(T.counter, tvb(NATIVE.moved, tag.at - NATIVE.moved))
        sub:add(T.tag, tvb(tag.at, shift - (tag.at - NATIVE.moved)))
    end
    if not lawful(tvb, whole - shift) then
        sub:add_proto_expert_info(t_malformed, "No lawful frame")
        return "malformed"
    end
    if has(tvb, "checksum") and thole.prefs.check and tvb:len() >= whole then
        check_sum(tvb, whole, sub)
    end
    local line = native_body(tvb, pinfo, sub, whole - shift, place)
    if whole < length and tvb:len() > whole then
        sub:add(T.padding, tvb(whole, math.min(length, tvb:len()) - whole))
    end
    sub:append_text(", " .. line)
    return line
end

local function native_frame(tvb, pinfo, tree, length, place)
    shift = guard_of(tvb)
    local line = native_parts(tvb, pinfo, tree, length, place)
    shift = 0
    return line
end

-- Bytes of each frame in a UDP packet: all of it, or where the kernel cuts it up after the capture (UDP_SEGMENT) up to the
-- next frame to the same connection and session.
local function segment_of(tvb)
    local whole = tvb:reported_len()
    if whole <= 64 or tvb:len() < whole then
        return whole
    end
    local raw = tvb:raw(0, whole)
    local to, session = HEAD.by_name["to"], HEAD.by_name["session"]
    local same = raw:sub(to.at + 1, session.at + session.size)
    local at = raw:find(same, to.at + 2, true)
    while at do
        local length = at - to.at - 1
        local frame = length >= LEAST and tvb(length):tvb()
        if frame and number(frame, HEAD, "version") == VERSION and TYPES[number(frame, HEAD, "type")] and
            number(frame, HEAD, "flags") <= FLAGS_ALL then
            return length
        end
        at = raw:find(same, at + 1, true)
    end
    return whole
end

function thole.dissector(tvb, pinfo, tree)
    local whole, udp = tvb:reported_len(), pinfo.port_type == 3 -- a packet of UDP
    local segment, at, lines = udp and segment_of(tvb) or whole, 0, {}

    pinfo.cols.protocol = "Thole"
    while at < whole and at < tvb:len() do
        local length = math.min(segment, whole - at)
        lines[#lines + 1] = native_frame(tvb(at, math.min(length, tvb:len() - at)):tvb(), pinfo, tree, length, at)
        at = at + length
    end
    pinfo.cols.info = (lines[1] or "") .. (#lines > 1 and string.format(" (and %d more)", #lines - 1) or "")
    return tvb:len()
end

-- Whether a UDP packet looks like ours: everything that a lawful frame says of itself has to agree.
local function looks_native(tvb, pinfo, tree)
    local length = tvb:reported_len()
    if not thole.prefs.heuristic or tvb:len() < LEAST then
        return false
    end
    shift = guard_of(tvb)
    local ours = lawful(tvb, length - shift)
    shift = 0
    if not ours then
        return false
    end
    local packet, short = packet_of(tvb), number(tvb, HEAD, "short")
    if number(tvb, HEAD, "flags") > FLAGS_ALL or (not has(tvb, "checksum") and number(tvb, HEAD, "checksum") ~= 0) then
        return false
    end
    if (short == 0 and length < SHORT) or (short > 0 and (short < LEAST or short >= SHORT or short > length)) then
        return false
    end
    local size = packet.by_name["connect.size"] and number(tvb, packet, "connect.size") or 0
    if size ~= 0 and size ~= length then
        return false
    end
    thole.dissector(tvb, pinfo, tree)
    pinfo.conversation = thole
    return true
end

local native_ports, native_ethertype

local function native_places()
    local udp, ether = DissectorTable.get("udp.port"), DissectorTable.get("ethertype")
    if native_ports and tostring(native_ports) ~= "" then
        udp:remove(native_ports, thole)
    end
    if native_ethertype then
        ether:remove(native_ethertype, thole)
    end
    native_ports, native_ethertype = thole.prefs.ports, thole.prefs.ethertype
    if native_ports and tostring(native_ports) ~= "" then
        udp:add(native_ports, thole)
    end
    ether:add(native_ethertype, thole)
end

thole.init = forget
thole.prefs_changed = native_places
thole:register_heuristic("udp", looks_native)
native_places()

-- ---- mxoe ---------------------------------------------------------------------------------------------------

local mxoe = Proto("mxoe", "MX over Ethernet")

table.insert(MXOE.fields, { "padding", "Padding", ftypes.BYTES, base.NONE })
local M = make_fields(mxoe, "mxoe", MXOE.fields)
prepare(MXOE, MXOE.FRAME.length)
MXOE.FRAME.begin = 0

local MX_TYPES = names_of(MXOE, "type")

local m_resent = ProtoExpert.new("mxoe.resent", "Sent again", expert.group.SEQUENCE, expert.severity.NOTE)
local m_nack = ProtoExpert.new("mxoe.nack", "Refused", expert.group.RESPONSE_CODE, expert.severity.WARN)
local m_status = ProtoExpert.new("mxoe.refused", "Connection refused", expert.group.RESPONSE_CODE, expert.severity.WARN)
local m_malformed = ProtoExpert.new("mxoe.malformed", "No lawful frame", expert.group.MALFORMED, expert.severity.ERROR)
mxoe.experts = { m_resent, m_nack, m_status, m_malformed }

local AUTOMATIC, MX_MODE, JUMBO_MODE = 0, 1, 2
mxoe.prefs.mode = Pref.enum("Mode", AUTOMATIC, "How mediums and pulls are laid out", {
    { 1, "automatic", AUTOMATIC }, { 2, "mx", MX_MODE }, { 3, "jumbo", JUMBO_MODE },
}, true)

-- A pull's magic is 0x21071980 XOR endpoint, and a fragment of MX mode says its size: that tells the modes apart.
local function is_jumbo(tvb, name)
    if mxoe.prefs.mode ~= AUTOMATIC then
        return mxoe.prefs.mode == JUMBO_MODE
    end
    if name == "PULL" then
        return bit.band(number(tvb, MXOE.PULL_JUMBO, "magic"), 0x7fffff00) == 0x21071900
    end
    return number(tvb, MXOE.MEDIUM, "fragment.log") == 0
end

-- What each type's line in the list of packets says, a key by which the same frame is known again (nil: none), and the bytes of
-- its payload. `v` and `h` are the number and the digits of a field by its name.
local bodies = {}

local function ends(v)
    return string.format("%d>%d", v("from"), v("to"))
end

local function sequence_text(v)
    local value = v("sequence")
    return string.format("seq=%d%s", bit.band(value, 0x3fff), value >= 0x4000 and "/" .. bit.rshift(value, 14) or "")
end

local function message_line(v, h, length)
    return string.format("%s %s ack=%d len=%d match=%s", ends(v), sequence_text(v), bit.band(v("ack"), 0x3fff), length, h("match"))
end

-- Endpoints, session and sequence name a message.
local function message_key(h)
    return h("to", "from", "sequence", "session")
end

function bodies.tiny(v, h)
    return message_line(v, h, v("length")), message_key(h), v("length")
end

bodies.small = bodies.tiny

function bodies.medium(v, h)
    return message_line(v, h, v("total")) .. string.format(" fragment=%d+%d", v("fragment.number"), v("fragment.length")),
        message_key(h) .. h("fragment.number"), v("fragment.length")
end

function bodies.rendezvous(v, h)
    return message_line(v, h, v("total")) .. string.format(" window=%d/%d", v("window.id"), v("window.sequence")), message_key(h)
end

function bodies.pull(v, _, _, pinfo)
    local handle = string.format("%s:%x:%x", tostring(pinfo.dl_src), v("handle"), v("magic"))
    local window = string.format("%d/%d/%d", v("window.id"), v("window.sequence"), v("total"))
    local epoch = pinfo.visited and 0 or epoch_of(handle, window)
    return string.format("%s handle=%x window=%d/%d frame=%d len=%d of %d", ends(v), v("handle"), v("window.id"),
        v("window.sequence"), v("pull.frame"), v("pull.length"), v("total")), handle .. ":" .. epoch .. ":" .. v("pull.frame")
end

bodies["pull reply"] = function(v, _, _, pinfo)
    local handle = string.format("%s:%x:%x", tostring(pinfo.dl_dst), v("handle"), v("magic"))
    local epoch = pinfo.visited and 0 or epoch_of(handle)
    return string.format("handle=%x frame=%d offset=%d len=%d", v("handle"), v("data.frame"), v("data.offset"), v("length")),
        handle .. ":" .. epoch .. ":" .. v("data.offset"), v("length")
end

function bodies.notify(v, h)
    return string.format("%s %s ack=%d window=%d/%d pulled=%d", ends(v), sequence_text(v), bit.band(v("ack"), 0x3fff),
        v("window.id"), v("window.sequence"), v("total")), message_key(h)
end

function bodies.connect(v, h, tree)
    local reply = v("connect.reply") == 1
    local status = reply and v("connect.status") or 0
    local refused = STATUSES[status] or status
    if status ~= 0 then
        tree:add_proto_expert_info(m_status, "Connection refused: " .. refused)
    end
    return string.format("%s %s session=%s number=%d%s", reply and "reply" or "request", ends(v),
        h(reply and "connect.target" or "connect.session"), v("connect.number"), status ~= 0 and " refused: " .. refused or ""),
        h("to", "from", "connect.session", "connect.key", "connect.next", "connect.reply", "connect.number")
end

function bodies.truc(v)
    return string.format("%s ack=%d number=%d", ends(v), bit.band(v("ack"), 0x3fff), v("truc.number"))
end

local function refused(v, tree)
    local reason = REASONS[v("nack.reason")] or v("nack.reason")
    tree:add_proto_expert_info(m_nack, "Refused: " .. reason)
    return reason
end

bodies["nack library"] = function(v, _, tree)
    return string.format("%s %s %s", ends(v), sequence_text(v), refused(v, tree))
end

bodies["nack driver"] = function(v, _, tree) -- its endpoint is the one that pulled
    return string.format(">%d handle=%x %s", v("to"), v("handle"), refused(v, tree))
end

function bodies.query(v)
    return string.format("index=%d", v("host.index"))
end

function bodies.reply(v, _, tree, _, tvb)
    local name = part(tvb, MXOE.REPLY.begin + MXOE.REPLY.length, v("host.name_length"))
    if name then
        tree:add(M["host.name"], name)
    end
    return string.format("index=%d name=%s", v("host.index"), name and name:string():match("^[^%z]*") or "")
end

function bodies.raw(_, h)
    return "mac=" .. h("hello.mac"):sub(5)
end

-- Bytes of payload, at most; what is behind the fields of some is padding though it is a part of the body.
local PAYLOADS = { tiny = 32, small = 128, medium = 8192, ["pull reply"] = 8968 }

local function mxoe_body(tvb, pinfo, sub, name, packet)
    local whole = tvb:reported_len()
    local function v(field)
        return number(tvb, packet, field)
    end
    local function h(...)
        return hex(tvb, packet, ...)
    end
    local head = add_fields(sub, M, tvb, packet, MXOE.FRAME)
    local line, key, payload = bodies[name](v, h, sub, pinfo, tvb)
    line, payload = name .. " " .. line, payload or 0
    head = head + (packet == MXOE.REPLY and v("host.name_length") or 0)
    if head + payload > whole and packet ~= MXOE.RAW or payload > (PAYLOADS[name] or 0) then
        sub:add_proto_expert_info(m_malformed, "The payload is longer than its class or the frame")
    else
        add_payload(sub, M.payload, tvb, head, payload)
        if head + payload < tvb:len() then
            sub:add(M.padding, tvb(head + payload))
        end
    end
    if key then
        local first = seen_before(pinfo, 0, name .. ":" .. tostring(pinfo.dl_src) .. ":" .. key)
        mark_resent(sub, m_resent, first)
        line = line .. (first and " [sent again]" or "")
    end
    return line
end

local function mxoe_frame(tvb, pinfo, sub)
    local kind = number(tvb, MXOE.FRONT, "type")
    local name = MX_TYPES[kind]
    local key = name and name:upper():gsub(" ", "_")
    local packet = name and (MXOE[key .. "_JUMBO"] and is_jumbo(tvb, key) and MXOE[key .. "_JUMBO"] or MXOE[key])

    add_fields(sub, M, tvb, MXOE.FRAME)
    local type_at = part(tvb, MXOE.FRONT.begin, 1)
    local least = packet and packet.begin + (packet == MXOE.RAW and 28 or packet.length)
    if not packet or tvb:reported_len() < least then
        sub:add(M.type, type_at)
        sub:add_proto_expert_info(m_malformed, packet and "The frame ends in its head" or "No such type")
        return name or "type " .. kind
    end
    if tvb:len() < least then
        sub:add(M.type, type_at)
        return name .. " [cut short by the capture]"
    end
    return mxoe_body(tvb, pinfo, sub, name, packet)
end

function mxoe.dissector(tvb, pinfo, tree)
    if tvb:len() < 3 then
        return 0
    end
    local sub = tree:add(mxoe, tvb())
    local line = mxoe_frame(tvb, pinfo, sub)
    pinfo.cols.protocol = "MXoE"
    pinfo.cols.info = line
    sub:append_text(", " .. line)
    return tvb:len()
end

mxoe.init = forget
DissectorTable.get("ethertype"):add(0x86DF, mxoe)
