-- Drives the plugin without a person: what is chosen and answered comes from the environment.
local timeleap = require("timeleap")
local out = assert(io.open(vim.env.TIMELEAP_TEST_OUT, "w"))
local function say(...) out:write(table.concat({ ... }, " "), "\n") out:flush() end
local function fail(why) say("FAILED", why) vim.cmd("cquit") end
local function wait(what, done)
  if not vim.wait(60000, done, 20) then fail("waited in vain for " .. what) end
end
local choice
vim.ui.select = function(items, options, act)
  local shown = {}
  for _, item in ipairs(items) do table.insert(shown, options.format_item(item)) end
  say("choose", options.prompt, table.concat(shown, " | "))
  act(items[choice])
end
vim.fn.confirm = function(message) say("asked", message) return 1 end
vim.notify = function(message) say("told", message) end

timeleap.setup({ cmd = vim.fn.split(vim.env.TIMELEAP_TEST_COMMAND, "\t") })
local buffer = vim.api.nvim_get_current_buf()
wait("the server", function()
  local client = timeleap.client and vim.lsp.get_client_by_id(timeleap.client)
  return client and client.server_capabilities and client.server_capabilities.documentSymbolProvider
end)
local function ask(method, params)
  params.textDocument = { uri = vim.uri_from_bufnr(buffer) }
  local answers = vim.lsp.buf_request_sync(buffer, method, params, 60000) or {}
  for _, answer in pairs(answers) do return answer.result end
end
local function lines() return vim.api.nvim_buf_line_count(buffer) end
for _, symbol in ipairs(ask("textDocument/documentSymbol", {})) do say("turn", symbol.name) end
say("lenses", tostring(#ask("textDocument/codeLens", {})))
local before = lines()
choice = 1
timeleap.checkpoints()
wait("the cursor", function() return vim.fn.line(".") > 1 end)
say("line", tostring(vim.fn.line(".")))
timeleap.revert()
wait("the revert", function() vim.cmd("checktime") return lines() < before end)
say("reverted", tostring(lines()))
timeleap.undo()
wait("the undo", function() vim.cmd("checktime") return lines() == before end)
say("undone", tostring(lines()))
say("diagnostics", tostring(#vim.diagnostic.get(buffer)))
timeleap.diff()
wait("the comparison", function() return vim.api.nvim_buf_get_name(0):match("compared") end)
say("compared", vim.api.nvim_buf_get_lines(0, 0, 1, false)[1])
say("done")
vim.cmd("qall!")
