/** All that the page says, in the languages it speaks. */

const ENGLISH = {
  tag: "en",
  untitled: "Untitled session",
  present: "The present",
  timeline: (number) => `Timeline ${number}`,
  reason: {
    revert: "before a revert",
    clear: "before a clear",
    compact: "before a compaction",
    restore: "before a restore",
    dmail: "before a D-Mail",
    import: "imported",
    unknown: "set aside",
  },
  short: { revert: "revert", clear: "clear", compact: "compaction", restore: "restore", dmail: "D-Mail", import: "import", unknown: "set aside" },
  messages: (n) => `${exact(n)} ${n === 1 ? "message" : "messages"}`,
  checkpoints: (n) => `${exact(n)} ${n === 1 ? "checkpoint" : "checkpoints"}`,
  files: (n) => `${exact(n)} ${n === 1 ? "file" : "files"} changed`,
  failed: (n) => `${exact(n)} failed`,
  timelines: (n) => `${exact(n)} ${n === 1 ? "timeline" : "timelines"}`,
  tokens: (n) => `${exact(n)} ${n === 1 ? "token" : "tokens"}`,
  tokensWord: "tokens",
  noTokens: "no token counts",
  uncounted: "tokens not counted",
  checkpoint: (id, label) => (label ? `Checkpoint ${id}: ${label}` : `Checkpoint ${id}`),
  now: "Now",
  end: "The end of it",
  stepOf: (ordinal, total) => `${exact(ordinal)} of ${exact(total)}`,
  atPresent: "The conversation now",
  atEnd: (log) => `The conversation at the end of ${log}`,
  atCheckpoint: (checkpoint) => `The conversation at ${lower(checkpoint)}`,
  empty: "Nothing had been said yet.",
  about: {
    present: "The present: what the conversation is now.",
    timeline: (log, reason, when) => `${log}: what the conversation was ${reason}${when ? `, ${when}` : ""}.`,
    leaves: (log, messages) => `It leaves ${log === ENGLISH.present ? "the present" : log} after ${ENGLISH.messages(messages)}.`,
    apart: "It has no beginning in common with the others.",
    holds: (messages, checkpoints, tokens) => `${messages}, ${checkpoints}, ${tokens}.`,
  },
  updated: (when) => `last changed ${when}`,
  forked: (id) => `forked from ${id}`,
  prompt: "System prompt",
  roles: { user: "User", assistant: "Assistant", tool: "Tool result", system: "System" },
  thinking: "Thinking",
  failedCall: "failed",
  noResult: "no result here",
  answered: "Result",
  edit: "Edit",
  addedLine: "added",
  removedLine: "removed",
  media: (type, url) => `${type}: ${url}`,
  omitted: (n) => `${exact(n)} characters of data`,
  unknownPart: (type) => `Part of type ${type}`,
  damaged: "This message is damaged and cannot be shown.",
  whole: (lines) => `Show all ${exact(lines)} ${lines === 1 ? "line" : "lines"}`,
  less: "Show less",
  moreCalls: (n) => `Show ${exact(n)} more ${n === 1 ? "call" : "calls"}`,
  earlier: (n) => `${ENGLISH.messages(n)} before this`,
  later: (n) => `${ENGLISH.messages(n)} after this`,
  compare: "Compare with",
  nothing: "nothing",
  pin: "Compare from here",
  from: "From",
  to: "To",
  common: (n) => `${ENGLISH.messages(n)} in common`,
  removed: (n) => `${exact(n)} removed`,
  added: (n) => `${exact(n)} added`,
  same: "Both are the same.",
  choose: "Move the slider or choose a timeline, and what differs from here appears.",
  comparison: "What is different",
  pointEnd: (log) => (log === ENGLISH.present ? log : `the end of ${log}`),
  pointAt: (checkpoint, log) => (log === ENGLISH.present ? checkpoint : `${checkpoint} of ${log}`),
  moved: "also on the other side",
  search: "Search",
  hits: (at, total) => (total === 0 ? "not found" : `${exact(at)} of ${exact(total)}`),
  keys: "Arrow keys: the checkpoint before or after. Home and End: the first and the last. /: search, Enter: the next match.",
  windowed: "Long conversations are shown a part at a time; this page's search looks through all of it, the browser's through the part that is shown.",
  made: "Made by Timeleap. This file is all there is: it asks nothing of any network.",
  curve: (log, most) => `Token count of ${log} over its messages, up to ${most}`,
  branches: (n) => `The present and ${ENGLISH.timelines(n)} that branch off`,
  logs: "Present and timelines",
  sliderName: "Checkpoint",
  back: "The checkpoint before",
  forward: "The checkpoint after",
  broken: "The data of this page is damaged; it may have been cut short on its way here.",
};

/** @type {typeof ENGLISH} */
const CHINESE = {
  tag: "zh-CN",
  untitled: "未命名会话",
  present: "当前",
  timeline: (number) => `时间线 ${number}`,
  reason: {
    revert: "回退之前",
    clear: "清空之前",
    compact: "压缩之前",
    restore: "恢复之前",
    dmail: "D-Mail 之前",
    import: "导入的",
    unknown: "被搁置的",
  },
  short: { revert: "回退", clear: "清空", compact: "压缩", restore: "恢复", dmail: "D-Mail", import: "导入", unknown: "搁置" },
  messages: (n) => `${exact(n)} 条消息`,
  checkpoints: (n) => `${exact(n)} 个检查点`,
  files: (n) => `${exact(n)} 个文件已更改`,
  failed: (n) => `${exact(n)} 次失败`,
  timelines: (n) => `${exact(n)} 条时间线`,
  tokens: (n) => `${exact(n)} 个 token`,
  tokensWord: "token",
  noTokens: "没有 token 计数",
  uncounted: "token 未计数",
  checkpoint: (id, label) => (label ? `检查点 ${id}：${label}` : `检查点 ${id}`),
  now: "现在",
  end: "末尾",
  stepOf: (ordinal, total) => `第 ${exact(ordinal)} / ${exact(total)}`,
  atPresent: "现在的对话",
  atEnd: (log) => `${log}末尾的对话`,
  atCheckpoint: (checkpoint) => `${checkpoint} 时的对话`,
  empty: "此时还没有任何消息。",
  about: {
    present: "当前：对话现在的样子。",
    timeline: (log, reason, when) => `${log}：${reason}的对话${when ? `，${when}` : ""}。`,
    leaves: (log, messages) => `它在 ${CHINESE.messages(messages)}之后离开“${log}”。`,
    apart: "它与其他的没有共同的开头。",
    holds: (messages, checkpoints, tokens) => `${messages}，${checkpoints}，${tokens}。`,
  },
  updated: (when) => `最后更改于 ${when}`,
  forked: (id) => `分叉自 ${id}`,
  prompt: "系统提示词",
  roles: { user: "用户", assistant: "助手", tool: "工具结果", system: "系统" },
  thinking: "思考",
  failedCall: "失败",
  noResult: "此处没有结果",
  answered: "结果",
  edit: "编辑",
  addedLine: "新增",
  removedLine: "移除",
  media: (type, url) => `${type}：${url}`,
  omitted: (n) => `${exact(n)} 个字符的数据`,
  unknownPart: (type) => `类型为 ${type} 的部分`,
  damaged: "这条消息已损坏，无法显示。",
  whole: (lines) => `显示全部 ${exact(lines)} 行`,
  less: "收起",
  moreCalls: (n) => `再显示 ${exact(n)} 个调用`,
  earlier: (n) => `之前还有 ${CHINESE.messages(n)}`,
  later: (n) => `之后还有 ${CHINESE.messages(n)}`,
  compare: "与之比较",
  nothing: "不比较",
  pin: "以此处为比较基准",
  from: "从",
  to: "到",
  common: (n) => `共有 ${CHINESE.messages(n)}`,
  removed: (n) => `移除 ${exact(n)} 条`,
  added: (n) => `新增 ${exact(n)} 条`,
  same: "两者相同。",
  choose: "移动滑块或选择一条时间线，即可看到与此处的差异。",
  comparison: "差异",
  pointEnd: (log) => (log === CHINESE.present ? log : `${log}的末尾`),
  pointAt: (checkpoint, log) => (log === CHINESE.present ? checkpoint : `${log}的${checkpoint}`),
  moved: "另一侧也有",
  search: "搜索",
  hits: (at, total) => (total === 0 ? "未找到" : `${exact(at)} / ${exact(total)}`),
  keys: "方向键：上一个或下一个检查点。Home 和 End：第一个和最后一个。/：搜索，Enter：下一个匹配。",
  windowed: "较长的对话分段显示；本页的搜索会查找全部内容，浏览器的查找只涉及已显示的部分。",
  made: "由 Timeleap 生成。本文件自成一体，不访问任何网络。",
  curve: (log, most) => `${log}的 token 数随消息的变化，最高 ${most}`,
  branches: (n) => `当前与从中分出的 ${CHINESE.timelines(n)}`,
  logs: "当前与时间线",
  sliderName: "检查点",
  back: "上一个检查点",
  forward: "下一个检查点",
  broken: "本页的数据已损坏，可能在传输途中被截断。",
};

const WORDS = (navigator.languages ?? [navigator.language]).find((tag) => /^(en|zh)\b/i.test(tag))?.toLowerCase().startsWith("zh") ? CHINESE : ENGLISH;

const NUMBERS = new Intl.NumberFormat(WORDS.tag);
const TIMES = new Intl.DateTimeFormat(WORDS.tag, { dateStyle: "medium", timeStyle: "short" });

/** @param {number} number */
function exact(number) {
  return NUMBERS.format(number);
}

const SHORT_TIMES = new Intl.DateTimeFormat(WORDS.tag, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

/** A point in time as the reader's clock shows it; what is none stays what it is. @param {string | null | undefined} iso */
function when(iso) {
  const time = Date.parse(iso ?? "");
  return Number.isNaN(time) ? (iso ?? "") : TIMES.format(time);
}

/** The same in few characters. @param {string} iso */
function shortly(iso) {
  const time = Date.parse(iso);
  return Number.isNaN(time) ? iso : SHORT_TIMES.format(time);
}

/** @param {string} text */
function lower(text) {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
