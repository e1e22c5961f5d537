-- SPDX-License-Identifier: BSD-3-Clause
--[[
Dissectors for Wireshark and tshark of both codecs of Thole: `thole` (native; over UDP and over Ethernet) and `mxoe` (over
Ethernet, EtherType 0x86DF; both modes). Every field has a name, and a field that can be filtered for.

    tshark -X lua_script:thole.lua ...                    or link or copy it to the plugins folder (Help, About, Folders)

Native frames over UDP are recognised by their looks; a port in the preferences names them for sure. What is sent again, and
what is refused, is marked (thole.resent, thole.nack, mxoe.resent, mxoe.nack). One UDP packet of a capture may hold many
frames, where the kernel or the network card cut it up only later; they are shown one by one.

docs/PROTOCOL.md has the same fields. A field of a capture that was cut short is left out.
]]

-- ---- Names --------------------------------------------------------------------------------------------------

local PACKETS = {
    [1] = "CONNECT", [2] = "ACCEPT", [3] = "RECORD", [4] = "ACK", [5] = "PULL", [6] = "DATA", [7] = "NACK", [8] = "CLOSE",
}
local CONNECT, ACCEPT, RECORD, ACK, PULL, DATA, NACK, CLOSE = 1, 2, 3, 4, 5, 6, 7, 8

local KINDS = {
    [1] = "EAGER", [2] = "PIECE", [3] = "ANNOUNCE", [4] = "FINISH", [5] = "PUT", [6] = "GET", [7] = "ATOMIC", [8] = "REPLY",
}
local EAGER, PIECE, ANNOUNCE, PUT, GET, ATOMIC, REPLY = 1, 2, 3, 5, 6, 7, 8

local REASONS = { [1] = "bad endpoint", [2] = "endpoint closed", [3] = "bad session", [4] = "bad window" }
local STATUSES = { [0] = "success", [11] = "bad key", [12] = "integrity cannot be had" }
local NETWORKS = { [0] = "none", [1] = "IPv4", [2] = "IPv6", [3] = "mxoe" }

-- mxoe's types
local RAW, QUERY, HOST_REPLY, TRUC, MX_CONNECT, TINY, SMALL, MEDIUM = 1, 3, 4, 35, 36, 37, 38, 39
local RENDEZVOUS, MX_PULL, PULL_REPLY, NOTIFY, NACK_LIBRARY, NACK_DRIVER = 40, 41, 42, 43, 44, 45
local MX_PACKETS = {
    [RAW] = "raw", [QUERY] = "host query", [HOST_REPLY] = "host reply", [TRUC] = "truc", [MX_CONNECT] = "connect",
    [TINY] = "tiny", [SMALL] = "small", [MEDIUM] = "medium", [RENDEZVOUS] = "rendezvous", [MX_PULL] = "pull",
    [PULL_REPLY] = "pull reply", [NOTIFY] = "notify", [NACK_LIBRARY] = "nack (library)", [NACK_DRIVER] = "nack (driver)",
}

-- ---- What both dissectors need ------------------------------------------------------------------------------

local DEC, HEX = base.DEC, base.HEX
local U8, U16, U32, U64 = ftypes.UINT8, ftypes.UINT16, ftypes.UINT32, ftypes.UINT64
local BYTES, STRING, BOOL = ftypes.BYTES, ftypes.STRING, ftypes.BOOLEAN

-- Fields by name, from rows of {name, what is shown, type, base, names of values, mask}.
local function make_fields(proto, prefix, rows)
    local fields, list = {}, {}
    for _, row in ipairs(rows) do
        local name, text, kind, shown, values, mask = row[1], row[2], row[3], row[4], row[5], row[6]
        fields[name] = ProtoField.new(text, prefix .. "." .. name, kind, values, shown or base.NONE, mask)
        list[#list + 1] = fields[name]
    end
    proto.fields = list
    return fields
end

-- Bytes of counter and tag in the native frame that is looked at: what is behind its first 32 bytes has moved by them.
local shift = 0

local function moved(offset)
    return offset >= 32 and offset + shift or offset
end

-- A part of the frame, nil where the capture ends before it.
local function part(tvb, offset, length)
    offset = moved(offset)
    if offset + length <= tvb:len() then
        return tvb(offset, length)
    end
    return nil
end

-- Add fields from rows of {name, offset, length}.
local function add_rows(tree, fields, tvb, rows)
    for _, row in ipairs(rows) do
        local range = part(tvb, row[2], row[3])
        if range then
            tree:add(fields[row[1]], range)
        end
    end
end

local function number(tvb, offset, length)
    local range = part(tvb, offset, length)
    return range and range:uint() or 0
end

local function hex(tvb, offset, length)
    local range = part(tvb, offset, length)
    return range and tostring(range:bytes()) or ""
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

-- Transfers' numbers come back for other windows: a counter that tells them apart.
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

local T = make_fields(thole, "thole", {
    { "type", "Type", U8, DEC, PACKETS },
    { "version", "Version", U8, DEC },
    { "short", "Length if below 64", U8, DEC },
    { "flags", "Flags", U8, HEX },
    { "flags.checksum", "Checksum is set", BOOL, 8, nil, 0x01 },
    { "flags.hold", "Announce only, send no data unasked", BOOL, 8, nil, 0x02 },
    { "flags.answer", "Acknowledge at once", BOOL, 8, nil, 0x04 },
    { "flags.tagged", "Has a short tag", BOOL, 8, nil, 0x08 },
    { "flags.sealed", "Has a long tag", BOOL, 8, nil, 0x10 },
    { "flags.aside", "Send data by the other link", BOOL, 8, nil, 0x20 },
    { "to", "To connection", U32, DEC },
    { "session", "Session of the receiver", U64, HEX },
    { "checksum", "Checksum", U32, HEX },
    { "counter", "Counter, never the same again", U64, DEC },
    { "tag", "Tag of who knows the connection's keys", BYTES },
    { "sequence", "Sequence", U32, DEC },
    { "ack", "Next sequence expected", U32, DEC },
    { "credit", "Credit, frames beyond", U16, DEC },
    { "record.kind", "Kind of record", U8, DEC, KINDS },
    { "record.flags", "Flags of the record", U8, HEX },
    { "record.flags.imm", "Immediate data", BOOL, 8, nil, 0x01 },
    { "record.flags.plain", "Plain message", BOOL, 8, nil, 0x02 },
    { "record.flags.sync", "Sender waits for FINISH", BOOL, 8, nil, 0x04 },
    { "record.flags.more", "Pieces follow", BOOL, 8, nil, 0x08 },
    { "record.flags.window", "Has a window", BOOL, 8, nil, 0x10 },
    { "record.flags.notify", "Completion at the target", BOOL, 8, nil, 0x20 },
    { "record.flags.stream", "Stream", BOOL, 8, nil, 0x40 },
    { "record.flags.args", "Arguments follow", BOOL, 8, nil, 0x80 },
    { "record.tag", "Tag", U64, HEX },
    { "record.imm", "Imm", U64, HEX },
    { "record.arg0", "Argument 0", U64, HEX },
    { "record.arg1", "Argument 1", U64, HEX },
    { "record.arg2", "Argument 2", U64, HEX },
    { "record.arg3", "Argument 3", U64, HEX },
    { "payload", "Payload", BYTES },
    { "ack.held", "Held already beyond a gap", U64, HEX },
    { "pull.frame", "Payload of each frame", U16, DEC },
    { "pull.window", "Window", U64, HEX },
    { "transfer", "Transfer", U64, HEX },
    { "pull.length", "Length of the block", U32, DEC },
    { "pull.offset", "Offset in the message", U64, DEC },
    { "pull.wanted", "Frames wanted, 0: all", U64, HEX },
    { "data.offset", "Offset in the message", U64, DEC },
    { "nack.reason", "Reason", U8, DEC, REASONS },
    { "nack.refused", "Session of what is refused", U64, HEX },
    { "nack.proof", "Proof of knowing the job key", U64, HEX },
    { "connect.index", "Index of the sender's connection", U32, DEC },
    { "connect.session", "Session of the sender", U64, HEX },
    { "connect.target", "Endpoint that is meant", U64, HEX },
    { "connect.proof", "Proof of knowing the job key", U64, HEX },
    { "connect.host", "Host of the sender", U64, HEX },
    { "connect.endpoint", "Endpoint of the sender", U64, HEX },
    { "connect.network", "Network address of the sender", BYTES },
    { "connect.network.kind", "Kind", U8, DEC, NETWORKS },
    { "connect.network.port", "UDP port", U16, DEC },
    { "connect.network.ipv4", "IPv4", ftypes.IPv4 },
    { "connect.network.mac", "MAC", ftypes.ETHER },
    { "connect.network.ipv6", "IPv6", ftypes.IPv6 },
    { "connect.network.number", "Endpoint number", U8, DEC },
    { "connect.next", "Next sequence expected", U32, DEC },
    { "connect.seen", "Length of the CONNECT that arrived", U16, DEC },
    { "connect.size", "Length of this frame", U16, DEC },
    { "connect.bulk_port", "UDP port for DATA", U16, DEC },
    { "connect.attempt", "Attempt", U8, DEC },
    { "connect.status", "Status", U8, DEC, STATUSES },
    { "connect.mac", "MAC for raw frames", ftypes.ETHER },
    { "connect.ethertype", "EtherType of raw frames, 0: none", U16, HEX },
    { "connect.integrity", "What tags are to cover", U8, DEC, { [0] = "nothing", "heads", "all" } },
    { "connect.later", "For later", U64, HEX },
    { "padding", "Padding", BYTES },
})

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

-- Heads that all frames of a type have.
local HEADS = {
    [RECORD] = 32, [ACK] = 40, [PULL] = 64, [DATA] = 32, [NACK] = 40, [CLOSE] = 32, [CONNECT] = 112, [ACCEPT] = 112,
}
local SHORT = 64 -- frames below it say how long they are

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
    local bytes, crc = tvb:range(0, length):bytes(), bit.bnot(0)
    for i = 0, length - 1 do
        local byte = (i >= 16 and i < 20) and 0 or bytes:get_index(i)
        crc = bit.bxor(bit.rshift(crc, 8), crc_table[bit.band(bit.bxor(crc, byte), 0xff)])
    end
    return bit.bnot(crc)
end

local function record_has_imm(kind, flags)
    return kind ~= EAGER or bit.band(flags, 0x01) ~= 0
end

local function record_head(kind, flags)
    if kind == PIECE then
        return 32
    end
    return 40 + (record_has_imm(kind, flags) and 8 or 0) + (bit.band(flags, 0x80) ~= 0 and 32 or 0)
end

local function add_network(tree, tvb)
    local range = part(tvb, 64, 20)
    if not range then
        return
    end
    local network, kind = tree:add(T["connect.network"], range), tvb(64, 1):uint()
    network:add(T["connect.network.kind"], tvb(64, 1))
    if kind == 1 or kind == 2 then
        network:add(T["connect.network.port"], tvb(66, 2))
    end
    if kind == 1 then
        network:add(T["connect.network.ipv4"], tvb(68, 4))
    elseif kind == 2 then
        network:add(T["connect.network.ipv6"], tvb(68, 16))
    elseif kind == 3 then
        network:add(T["connect.network.number"], tvb(68, 1))
    end
    if kind == 1 or kind == 3 then
        network:add(T["connect.network.mac"], tvb(72, 6))
    end
end

local CONNECT_ROWS = {
    { "connect.index", 20, 4 }, { "connect.session", 24, 8 }, { "connect.target", 32, 8 }, { "connect.proof", 40, 8 },
    { "connect.host", 48, 8 }, { "connect.endpoint", 56, 8 },
}
local CONNECT_ROWS_MORE = {
    { "connect.next", 84, 4 }, { "connect.seen", 88, 2 }, { "connect.size", 90, 2 }, { "connect.bulk_port", 92, 2 },
    { "connect.attempt", 94, 1 }, { "connect.status", 95, 1 }, { "connect.mac", 96, 6 }, { "connect.ethertype", 102, 2 },
    { "connect.integrity", 104, 1 }, { "connect.later", 105, 7 },
}

local function add_flags(tree, field, prefix, range, names)
    local sub = tree:add(field, range)
    for _, name in ipairs(names) do
        sub:add(T[prefix .. name], range)
    end
end

-- Each type's fields; returns the line for the list of packets and a key by which the same frame is known again.
local types = {}

types[RECORD] = function(tvb, tree, length)
    local kind, flags = number(tvb, 30, 1), number(tvb, 31, 1)
    local head, at = record_head(kind, flags), 40
    add_rows(tree, T, tvb, { { "sequence", 20, 4 }, { "ack", 24, 4 }, { "credit", 28, 2 }, { "record.kind", 30, 1 } })
    if part(tvb, 31, 1) then
        add_flags(tree, T["record.flags"], "record.flags.", tvb(31, 1),
            { "imm", "plain", "sync", "more", "window", "notify", "stream", "args" })
    end
    if kind ~= PIECE then
        add_rows(tree, T, tvb, { { "record.tag", 32, 8 } })
        if record_has_imm(kind, flags) then
            add_rows(tree, T, tvb, { { "record.imm", at, 8 } })
            at = at + 8
        end
        for i = 0, bit.band(flags, 0x80) ~= 0 and 3 or -1 do
            add_rows(tree, T, tvb, { { "record.arg" .. i, at + 8 * i, 8 } })
        end
    end
    add_payload(tree, T.payload, tvb, head, length - head)
    return string.format("RECORD %s seq=%d ack=%d credit=%d len=%d", KINDS[kind] or kind, number(tvb, 20, 4),
        number(tvb, 24, 4), number(tvb, 28, 2), length - head), hex(tvb, 20, 4), head
end

types[ACK] = function(tvb, tree)
    add_rows(tree, T, tvb, { { "sequence", 20, 4 }, { "ack", 24, 4 }, { "credit", 28, 2 }, { "ack.held", 32, 8 } })
    local held = part(tvb, 32, 8)
    if held and held:uint64() ~= UInt64(0) then
        tree:add_proto_expert_info(t_gap, "Frames are missing before those held")
    end
    return string.format("ACK ack=%d credit=%d next=%d", number(tvb, 24, 4), number(tvb, 28, 2), number(tvb, 20, 4))
end

types[PULL] = function(tvb, tree)
    add_rows(tree, T, tvb, {
        { "ack", 24, 4 }, { "credit", 28, 2 }, { "pull.frame", 30, 2 }, { "pull.window", 32, 8 }, { "transfer", 40, 7 },
        { "pull.offset", 47, 5 }, { "pull.length", 52, 4 }, { "pull.wanted", 56, 8 },
    })
    return string.format("PULL transfer=%s offset=%s len=%d wanted=%s", hex(tvb, 40, 7), tostring(part(tvb, 47, 5):uint64()),
        number(tvb, 52, 4), hex(tvb, 56, 8)), hex(tvb, 32, 32)
end

types[DATA] = function(tvb, tree, length)
    add_rows(tree, T, tvb, { { "transfer", 20, 7 }, { "data.offset", 27, 5 } })
    add_payload(tree, T.payload, tvb, 32, length - 32)
    return string.format("DATA transfer=%s offset=%s len=%d", hex(tvb, 20, 7), tostring(tvb(27, 5):uint64()), length - 32),
        hex(tvb, 20, 12)
end

types[NACK] = function(tvb, tree)
    add_rows(tree, T, tvb, { { "nack.reason", 20, 1 }, { "transfer", 24, 8 }, { "nack.refused", 8, 8 }, { "nack.proof", 32, 8 } })
    local reason = REASONS[number(tvb, 20, 1)] or number(tvb, 20, 1)
    tree:add_proto_expert_info(t_nack, "Refused: " .. reason)
    return "NACK " .. reason
end

types[CLOSE] = function(tvb, tree)
    add_rows(tree, T, tvb, { { "sequence", 20, 4 }, { "ack", 24, 4 }, { "credit", 28, 2 } })
    return string.format("CLOSE seq=%d ack=%d", number(tvb, 20, 4), number(tvb, 24, 4))
end

local function connect(name)
    return function(tvb, tree, length)
        add_rows(tree, T, tvb, CONNECT_ROWS)
        add_network(tree, tvb)
        add_rows(tree, T, tvb, CONNECT_ROWS_MORE)
        if length > 112 and tvb:len() > 112 then
            tree:add(T.padding, tvb(112, math.min(length, tvb:len()) - 112))
        end
        local status = number(tvb, 95, 1)
        if status ~= 0 then
            tree:add_proto_expert_info(t_status, "Connection refused: " .. (STATUSES[status] or status))
        end
        return string.format("%s session=%s attempt=%d size=%d%s", name, hex(tvb, 24, 8), number(tvb, 94, 1), length,
            status ~= 0 and " refused: " .. (STATUSES[status] or status) or ""), hex(tvb, 24, 16) .. hex(tvb, 84, 12)
    end
end

types[CONNECT] = connect("CONNECT")
types[ACCEPT] = connect("ACCEPT")

-- The key of a DATA frame counts what its transfer's number stands for now; PULLs tell.
local function key_of(kind, key, tvb, pinfo)
    local from, to = tostring(pinfo.net_src), tostring(pinfo.net_dst)
    if tostring(pinfo.net_src) == "" then
        from, to = tostring(pinfo.dl_src), tostring(pinfo.dl_dst)
    end
    local key_all = kind .. ":" .. hex(tvb, 4, 12) .. ":" .. key
    if pinfo.visited then
        return key_all
    elseif kind == PULL then
        return key_all .. ":" .. epoch_of(from .. to .. hex(tvb, 40, 7), hex(tvb, 32, 8))
    elseif kind == DATA then
        return key_all .. ":" .. epoch_of(to .. from .. hex(tvb, 20, 7))
    end
    return key_all
end

-- Bytes of counter and tag by a frame's flags.
local function guard_of(flags)
    return bit.band(flags, 0x10) ~= 0 and 24 or bit.band(flags, 0x08) ~= 0 and 16 or 0
end

-- Whether a frame is one; `length` is without counter and tag, and shift says how long these are.
local function lawful(tvb, length)
    local kind = number(tvb, 0, 1)
    if length < 32 or number(tvb, 1, 1) ~= 2 or not HEADS[kind] or length < HEADS[kind] then
        return false
    end
    if shift > 0 and (kind == CONNECT or kind == ACCEPT) then
        return false
    end
    if kind == RECORD then
        local what, flags = number(tvb, 30, 1), number(tvb, 31, 1)
        return KINDS[what] ~= nil and length >= record_head(what, flags)
    end
    return kind ~= NACK or REASONS[number(tvb, 20, 1)] ~= nil
end

-- One frame, from the start of tvb, of `length` bytes on the wire with its padding. Returns its line for the list.
local function native_parts(tvb, pinfo, tree, length, place)
    local kind, short = number(tvb, 0, 1), number(tvb, 2, 1)
    local sub = tree:add(thole, tvb(0, math.min(length, tvb:len())))
    local whole = (short > 0 and short < length) and short or length

    add_rows(sub, T, tvb, { { "type", 0, 1 }, { "version", 1, 1 }, { "short", 2, 1 } })
    if part(tvb, 3, 1) then
        add_flags(sub, T.flags, "flags.", tvb(3, 1), { "checksum", "hold", "answer", "tagged", "sealed" })
    end
    add_rows(sub, T, tvb, { { "to", 4, 4 }, { "session", 8, 8 } })
    if shift > 0 and tvb:len() >= 32 + shift then
        sub:add(T.counter, tvb(32, 8))
        sub:add(T.tag, tvb(40, shift - 8))
    end
    local sum = part(tvb, 16, 4)
    if sum then
        sum = sub:add(T.checksum, sum)
    end
    if not lawful(tvb, whole - shift) then
        sub:add_proto_expert_info(t_malformed, "No lawful frame")
        return "malformed"
    end
    if bit.band(number(tvb, 3, 1), 1) ~= 0 and thole.prefs.check and tvb:len() >= whole then
        if crc32c(tvb, whole) == bit.tobit(number(tvb, 16, 4)) then
            sum:append_text(" [right]")
        else
            sum:append_text(" [wrong]")
            sum:add_proto_expert_info(t_checksum, "Wrong checksum")
        end
    end
    if tvb:len() < HEADS[kind] + shift then
        return PACKETS[kind] .. " [cut short by the capture]"
    end
    local line, key = types[kind](tvb, sub, whole - shift)
    if key then
        local first = seen_before(pinfo, place, key_of(kind, key, tvb, pinfo))
        mark_resent(sub, t_resent, first)
        line = line .. (first and " [sent again]" or "")
    end
    if whole < length and tvb:len() > whole then
        sub:add(T.padding, tvb(whole, math.min(length, tvb:len()) - whole))
    end
    sub:append_text(", " .. line)
    return line
end

local function native_frame(tvb, pinfo, tree, length, place)
    shift = guard_of(number(tvb, 3, 1))
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
    local at = raw:find(raw:sub(5, 16), 6, true)
    while at do
        local length = at - 5
        if length >= 32 and raw:byte(length + 2) == 2 and HEADS[raw:byte(length + 1)] and raw:byte(length + 4) < 32 then
            return length
        end
        at = raw:find(raw:sub(5, 16), at + 1, true)
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
    if not thole.prefs.heuristic or tvb:len() < 32 then
        return false
    end
    shift = guard_of(number(tvb, 3, 1))
    local ours = lawful(tvb, length - shift)
    shift = 0
    if not ours then
        return false
    end
    local kind, short, flags = number(tvb, 0, 1), number(tvb, 2, 1), number(tvb, 3, 1)
    if flags > 31 or (bit.band(flags, 1) == 0 and number(tvb, 16, 4) ~= 0) then
        return false
    end
    if (short == 0 and length < SHORT) or (short > 0 and (short < 32 or short >= SHORT or short > length)) then
        return false
    end
    if (kind == CONNECT or kind == ACCEPT) and number(tvb, 90, 2) ~= 0 and number(tvb, 90, 2) ~= length then
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

local M = make_fields(mxoe, "mxoe", {
    { "index", "Peer index", U16, DEC },
    { "type", "Type", U8, DEC, MX_PACKETS },
    { "to", "Destination endpoint", U8, DEC },
    { "from", "Source endpoint", U8, DEC },
    { "generation", "Generation of the source endpoint", U8, DEC },
    { "length", "Length", U32, DEC },
    { "checksum", "Checksum (nobody sets it)", U16, HEX },
    { "sequence", "Sequence", U16, HEX },
    { "sequence.number", "Number", U16, DEC, nil, 0x3fff },
    { "sequence.session", "Partner session", U16, DEC, nil, 0xc000 },
    { "ack", "Next sequence expected", U16, HEX },
    { "match", "Match information", U64, HEX },
    { "session", "Session of the receiver", U32, HEX },
    { "fragment.length", "Length of the fragment", U16, DEC },
    { "fragment.number", "Fragment", U8, DEC },
    { "fragment.log", "log2 of the fragment size", U8, DEC },
    { "total", "Length of the message", U32, DEC },
    { "window.id", "Window", U32, DEC },
    { "window.sequence", "Sequence of the window", U8, DEC },
    { "window.offset", "Offset of the window", U32, DEC },
    { "handle", "Handle of the puller", U32, HEX },
    { "magic", "Magic of the puller", U32, HEX },
    { "pull.frame_offset", "Offset in the first frame", U32, DEC },
    { "pull.length", "Length of the block", U32, DEC },
    { "pull.frame", "Index of the first frame", U32, DEC },
    { "data.frame", "Frame index modulo 256", U8, DEC },
    { "data.offset", "Offset in the message", U32, DEC },
    { "connect.length", "Length of data", U8, DEC },
    { "connect.index", "Index that the sender gave the destination", U16, DEC },
    { "connect.session", "Session of the requester", U32, HEX },
    { "connect.key", "Application key", U32, HEX },
    { "connect.target", "Session of the target", U32, HEX },
    { "connect.next", "Next sequence expected", U16, HEX },
    { "connect.reply", "Is a reply", U8, DEC },
    { "connect.number", "Connect number", U8, DEC },
    { "connect.status", "Status", U8, DEC, STATUSES },
    { "truc.length", "Length of data", U8, DEC },
    { "truc.type", "Type of data", U8, HEX },
    { "truc.session", "Session again", U32, HEX },
    { "truc.number", "Number of this acknowledgement", U32, DEC },
    { "truc.send", "Send sequence", U16, HEX },
    { "truc.resent", "Resent", U8, DEC },
    { "nack.reason", "Reason", U8, DEC, REASONS },
    { "nack.index", "Index that the sender gave the destination", U16, DEC },
    { "host.index", "Index that the sender gave the destination", U16, DEC },
    { "host.magic", "Magic", U32, HEX },
    { "host.name_length", "Length of the name", U8, DEC },
    { "host.name", "Name", STRING },
    { "hello.mac", "MAC", U64, HEX },
    { "hello.serial", "Serial", U32, HEX },
    { "payload", "Payload", BYTES },
    { "padding", "Padding", BYTES },
})

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
local function is_jumbo(tvb, kind)
    if mxoe.prefs.mode ~= AUTOMATIC then
        return mxoe.prefs.mode == JUMBO_MODE
    end
    if kind == MX_PULL then
        return bit.band(number(tvb, 2 + 28, 4), 0x7fffff00) == 0x21071900
    end
    return number(tvb, 2 + 27, 1) == 0
end

-- Rows of {name, offset in the body, length}; the body begins behind the peer index.
local FRONT = { { "to", 1, 1 }, { "from", 2, 1 }, { "generation", 3, 1 } }
local MESSAGE = { { "length", 4, 2 }, { "checksum", 6, 2 } }
local MESSAGE_MORE = { { "ack", 10, 2 }, { "match", 12, 8 }, { "session", 20, 4 } }
local WINDOW_MX = { { "window.id", 12, 1 }, { "window.sequence", 13, 1 } }

local function add_body(tree, tvb, rows)
    for _, row in ipairs(rows) do
        local range = part(tvb, 2 + row[2], row[3])
        if range then
            tree:add(M[row[1]], range)
        end
    end
end

local function add_sequence(tree, tvb, offset)
    local range = part(tvb, 2 + offset, 2)
    if range then
        local sub = tree:add(M.sequence, range)
        sub:add(M["sequence.number"], range)
        sub:add(M["sequence.session"], range)
    end
end

local function sequence_text(tvb, offset)
    local value = number(tvb, 2 + offset, 2)
    return string.format("seq=%d%s", bit.band(value, 0x3fff), value >= 0x4000 and "/" .. bit.rshift(value, 14) or "")
end

-- Each type: its body's length, its fields, and how much payload it may have. The function returns the line for the list of
-- packets, a key by which the same frame is known again (nil: none), and the bytes of payload.
local bodies = {}

local function message_front(tvb, tree)
    add_body(tree, tvb, FRONT)
    add_body(tree, tvb, MESSAGE)
    add_sequence(tree, tvb, 8)
    add_body(tree, tvb, MESSAGE_MORE)
end

-- Endpoints, session and sequence name a message.
local function message_key(tvb, sequence_at, session_at)
    return hex(tvb, 2 + 1, 2) .. hex(tvb, 2 + sequence_at, 2) .. hex(tvb, 2 + session_at, 4)
end

local function message_line(tvb, length)
    return string.format("%d>%d %s ack=%d len=%d match=%s", number(tvb, 4, 1), number(tvb, 3, 1), sequence_text(tvb, 8),
        bit.band(number(tvb, 12, 2), 0x3fff), length, hex(tvb, 14, 8))
end

local function short_message(tvb, tree)
    local length = number(tvb, 2 + 4, 2)
    message_front(tvb, tree)
    return message_line(tvb, length), message_key(tvb, 8, 20), length
end

bodies[TINY] = { 24, short_message, 32 }
bodies[SMALL] = { 24, short_message, 128 }

bodies[MEDIUM] = { 32, function(tvb, tree)
    local jumbo = is_jumbo(tvb, MEDIUM)
    local total, length = number(tvb, 2 + 4, jumbo and 4 or 2), number(tvb, 2 + 24, 2)
    add_body(tree, tvb, FRONT)
    add_body(tree, tvb, { { "total", 4, jumbo and 4 or 2 } })
    add_sequence(tree, tvb, 8)
    add_body(tree, tvb, MESSAGE_MORE)
    add_body(tree, tvb, {
        { "fragment.length", 24, 2 }, { "fragment.number", 26, 1 }, { "fragment.log", 27, 1 }, { "checksum", 28, 2 },
    })
    return message_line(tvb, total) .. string.format(" fragment=%d+%d", number(tvb, 2 + 26, 1), length),
        message_key(tvb, 8, 20) .. hex(tvb, 2 + 26, 1), length
end, 8192 }

bodies[RENDEZVOUS] = { 32, function(tvb, tree)
    message_front(tvb, tree)
    add_body(tree, tvb, {
        { "total", 24, 4 }, { "window.id", 28, 1 }, { "window.sequence", 29, 1 }, { "window.offset", 30, 2 },
    })
    return message_line(tvb, number(tvb, 2 + 24, 4)) ..
        string.format(" window=%d/%d", number(tvb, 2 + 28, 1), number(tvb, 2 + 29, 1)), message_key(tvb, 8, 20)
end }

local PULL_MX = {
    { "window.id", 12, 1 }, { "window.sequence", 13, 1 }, { "window.offset", 14, 2 }, { "handle", 16, 4 },
    { "magic", 20, 4 }, { "pull.frame_offset", 24, 2 }, { "pull.length", 26, 2 }, { "pull.frame", 28, 4 },
}
local PULL_JUMBO = {
    { "window.id", 12, 4 }, { "window.sequence", 16, 1 }, { "window.offset", 20, 4 }, { "handle", 24, 4 },
    { "magic", 28, 4 }, { "pull.frame_offset", 32, 4 }, { "pull.length", 36, 4 }, { "pull.frame", 40, 4 },
}

bodies[MX_PULL] = { 32, function(tvb, tree, pinfo)
    local rows = is_jumbo(tvb, MX_PULL) and PULL_JUMBO or PULL_MX
    local at = {}
    for _, row in ipairs(rows) do
        at[row[1]] = number(tvb, 2 + row[2], row[3])
    end
    add_body(tree, tvb, FRONT)
    add_body(tree, tvb, { { "session", 4, 4 }, { "total", 8, 4 } })
    add_body(tree, tvb, rows)
    local handle = string.format("%s:%x:%x", tostring(pinfo.dl_src), at.handle, at.magic)
    local window = string.format("%d/%d/%d", at["window.id"], at["window.sequence"], number(tvb, 2 + 8, 4))
    local epoch = pinfo.visited and 0 or epoch_of(handle, window)
    return string.format("%d>%d handle=%x window=%d/%d frame=%d len=%d of %d", number(tvb, 4, 1), number(tvb, 3, 1),
        at.handle, at["window.id"], at["window.sequence"], at["pull.frame"], at["pull.length"], number(tvb, 2 + 8, 4)),
        handle .. ":" .. epoch .. ":" .. at["pull.frame"]
end }

bodies[PULL_REPLY] = { 16, function(tvb, tree, pinfo)
    local length, offset = number(tvb, 2 + 2, 2), number(tvb, 2 + 4, 4)
    add_body(tree, tvb, {
        { "data.frame", 1, 1 }, { "length", 2, 2 }, { "data.offset", 4, 4 }, { "handle", 8, 4 }, { "magic", 12, 4 },
    })
    local handle = string.format("%s:%x:%x", tostring(pinfo.dl_dst), number(tvb, 10, 4), number(tvb, 14, 4))
    local epoch = pinfo.visited and 0 or epoch_of(handle)
    return string.format("handle=%x frame=%d offset=%d len=%d", number(tvb, 10, 4), number(tvb, 3, 1), offset, length),
        handle .. ":" .. epoch .. ":" .. offset, length
end, 8968 }

bodies[NOTIFY] = { 24, function(tvb, tree)
    add_body(tree, tvb, FRONT)
    add_body(tree, tvb, { { "session", 4, 4 }, { "total", 8, 4 } })
    add_body(tree, tvb, WINDOW_MX)
    add_sequence(tree, tvb, 18)
    add_body(tree, tvb, { { "ack", 20, 2 } })
    return string.format("%d>%d %s ack=%d window=%d/%d pulled=%d", number(tvb, 4, 1), number(tvb, 3, 1),
        sequence_text(tvb, 18), bit.band(number(tvb, 22, 2), 0x3fff), number(tvb, 14, 1), number(tvb, 15, 1),
        number(tvb, 10, 4)), message_key(tvb, 18, 4)
end }

bodies[MX_CONNECT] = { 32, function(tvb, tree)
    local reply, status = number(tvb, 2 + 26, 1) == 1, number(tvb, 2 + 28, 1)
    add_body(tree, tvb, FRONT)
    add_body(tree, tvb, { { "connect.length", 4, 1 } })
    add_sequence(tree, tvb, 8)
    add_body(tree, tvb, {
        { "connect.index", 10, 2 }, { "connect.session", 16, 4 }, { reply and "connect.target" or "connect.key", 20, 4 },
        { "connect.next", 24, 2 }, { "connect.reply", 26, 1 }, { "connect.number", 27, 1 },
    })
    if reply then
        add_body(tree, tvb, { { "connect.status", 28, 1 } })
    end
    if reply and status ~= 0 then
        tree:add_proto_expert_info(m_status, "Connection refused: " .. (STATUSES[status] or status))
    end
    return string.format("%s %d>%d session=%s number=%d%s", reply and "reply" or "request", number(tvb, 4, 1),
        number(tvb, 3, 1), hex(tvb, 2 + (reply and 20 or 16), 4), number(tvb, 2 + 27, 1),
        (reply and status ~= 0) and " refused: " .. (STATUSES[status] or status) or ""),
        hex(tvb, 2 + 1, 2) .. hex(tvb, 2 + 16, 12)
end }

bodies[TRUC] = { 28, function(tvb, tree)
    add_body(tree, tvb, FRONT)
    add_body(tree, tvb, {
        { "truc.length", 4, 1 }, { "session", 8, 4 }, { "truc.type", 12, 1 }, { "ack", 14, 2 }, { "truc.session", 16, 4 },
        { "truc.number", 20, 4 }, { "truc.send", 24, 2 }, { "truc.resent", 26, 1 },
    })
    return string.format("%d>%d ack=%d number=%d", number(tvb, 4, 1), number(tvb, 3, 1),
        bit.band(number(tvb, 2 + 14, 2), 0x3fff), number(tvb, 2 + 20, 4))
end }

local function nack(tvb, tree, line)
    local reason = REASONS[number(tvb, 2 + 3, 1)] or number(tvb, 2 + 3, 1)
    tree:add_proto_expert_info(m_nack, "Refused: " .. reason)
    return line .. " " .. reason
end

bodies[NACK_LIBRARY] = { 16, function(tvb, tree)
    add_body(tree, tvb, {
        { "from", 1, 1 }, { "generation", 2, 1 }, { "nack.reason", 3, 1 }, { "to", 9, 1 }, { "nack.index", 10, 2 },
    })
    add_sequence(tree, tvb, 12)
    return nack(tvb, tree, string.format("%d>%d %s", number(tvb, 3, 1), number(tvb, 11, 1), sequence_text(tvb, 12)))
end }

bodies[NACK_DRIVER] = { 16, function(tvb, tree) -- its endpoint is the one that pulled
    add_body(tree, tvb, {
        { "to", 1, 1 }, { "generation", 2, 1 }, { "nack.reason", 3, 1 }, { "handle", 8, 4 }, { "magic", 12, 4 },
    })
    return nack(tvb, tree, string.format(">%d handle=%x", number(tvb, 3, 1), number(tvb, 10, 4)))
end }

bodies[QUERY] = { 16, function(tvb, tree)
    add_body(tree, tvb, { { "host.index", 2, 2 }, { "host.magic", 8, 4 } })
    return string.format("index=%d", number(tvb, 4, 2))
end }

bodies[HOST_REPLY] = { 16, function(tvb, tree)
    local length = number(tvb, 2 + 1, 1)
    add_body(tree, tvb, {
        { "host.name_length", 1, 1 }, { "host.index", 2, 2 }, { "host.magic", 8, 4 }, { "host.name", 16, length },
    })
    local name = part(tvb, 2 + 16, length)
    return string.format("index=%d name=%s", number(tvb, 4, 2), name and name:stringz() or "")
end }

bodies[RAW] = { 28, function(tvb, tree)
    add_body(tree, tvb, { { "hello.mac", 16, 8 }, { "hello.serial", 24, 4 } })
    return "mac=" .. hex(tvb, 2 + 18, 6)
end }

local function body_length(tvb, kind)
    if kind == MX_PULL and is_jumbo(tvb, kind) then
        return 44
    elseif kind == HOST_REPLY then
        return 16 + number(tvb, 2 + 1, 1)
    elseif kind == RAW then
        return 48
    end
    return bodies[kind][1]
end

local function mxoe_frame(tvb, pinfo, sub)
    local kind, whole = number(tvb, 2, 1), tvb:reported_len()
    local body = bodies[kind]

    add_rows(sub, M, tvb, { { "index", 0, 2 }, { "type", 2, 1 } })
    if not body or whole < 2 + body[1] then
        sub:add_proto_expert_info(m_malformed, body and "The frame ends in its head" or "No such type")
        return body and MX_PACKETS[kind] or "type " .. kind
    end
    if tvb:len() < 2 + body[1] then
        return MX_PACKETS[kind] .. " [cut short by the capture]"
    end
    local line, key, payload = body[2](tvb, sub, pinfo)
    local head = 2 + body_length(tvb, kind)
    line = MX_PACKETS[kind] .. " " .. line
    payload = payload or 0
    if head + payload > whole or (body[3] and payload > body[3]) then
        sub:add_proto_expert_info(m_malformed, "The payload is longer than its class or the frame")
    else
        add_payload(sub, M.payload, tvb, head, payload)
        if head + payload < tvb:len() then
            sub:add(M.padding, tvb(head + payload))
        end
    end
    if key then
        local first = seen_before(pinfo, 0, kind .. ":" .. tostring(pinfo.dl_src) .. ":" .. key)
        mark_resent(sub, m_resent, first)
        line = line .. (first and " [sent again]" or "")
    end
    return line
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
