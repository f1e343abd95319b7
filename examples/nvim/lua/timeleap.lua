-- Timeleap in Neovim (0.7 or later): the log of a session with outline, lenses and diagnostics by LSP, and a picker of checkpoints.
--
--   require("timeleap").setup()                                -- starts the server for logs of sessions, and makes the commands
--   require("timeleap").setup({ cmd = { "/path/timeleap", "serve" }, all_jsonl = true })   -- session files of agents as well
local M = { client = nil, following = {} }

local settings = { cmd = { "timeleap", "serve" }, all_jsonl = false, options = {} }

local function tell(message, level)
  vim.notify("timeleap: " .. message, level or vim.log.levels.INFO)
end

local function client()
  return M.client and vim.lsp.get_client_by_id(M.client)
end

-- Handlers -----------------------------------------------------------------------------------------------------------------

local function ask_person(_, params)
  local titles = {}
  for _, action in ipairs(params.actions or {}) do
    table.insert(titles, "&" .. action.title)
  end
  local chosen = vim.fn.confirm(params.message, table.concat(titles, "\n"), #titles, "Question")
  return chosen > 0 and params.actions[chosen] or vim.NIL
end

local function show_document(_, params)
  local path = vim.uri_to_fname(params.uri)
  if params.external then
    local opener = vim.fn.has("mac") == 1 and "open" or vim.fn.executable("xdg-open") == 1 and "xdg-open"
    if opener then
      vim.fn.jobstart({ opener, path }, { detach = true })
    else
      tell("the page is " .. path)
    end
  else
    vim.cmd("tabedit " .. vim.fn.fnameescape(path))
  end
  return { success = true }
end

local function log_changed(_, params)
  local buffer = M.following[params.sessionId]
  if not buffer or not vim.api.nvim_buf_is_loaded(buffer) then
    return
  end
  vim.cmd("checktime " .. buffer)
  local last = vim.api.nvim_buf_line_count(buffer)
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    vim.api.nvim_win_set_cursor(window, { last, 0 })
  end
end

-- Starting -----------------------------------------------------------------------------------------------------------------

local function configuration()
  local capabilities = vim.lsp.protocol.make_client_capabilities()
  capabilities.window = vim.tbl_deep_extend("force", capabilities.window or {}, {
    showMessage = { messageActionItem = { additionalPropertiesSupport = false } },
    showDocument = { support = true },
  })
  return {
    name = "timeleap",
    cmd = settings.cmd,
    root_dir = vim.loop.cwd(),
    init_options = vim.tbl_isempty(settings.options) and nil or settings.options,
    capabilities = capabilities,
    handlers = {
      ["window/showMessageRequest"] = ask_person,
      ["window/showDocument"] = show_document,
      ["context/didChange"] = log_changed,
    },
    on_exit = function()
      M.client, M.following = nil, {}
    end,
  }
end

local function is_ours(name)
  if name:match("/context%.jsonl$") or name:match("/context_%d+%.jsonl$") then
    return true
  end
  return settings.all_jsonl and name:match("%.jsonl$") ~= nil
end

--- Attach the server to a buffer, and start it where it does not run yet.
function M.attach(buffer)
  if not is_ours(vim.api.nvim_buf_get_name(buffer)) then
    return
  end
  if not client() then
    M.client = vim.lsp.start_client(configuration())
  end
  if M.client then
    vim.lsp.buf_attach_client(buffer, M.client)
    vim.bo[buffer].autoread = true
  end
end

-- Requests -----------------------------------------------------------------------------------------------------------------

local function request(method, params, done)
  local server = client()
  if not server then
    return tell("no log of a session is open", vim.log.levels.ERROR)
  end
  server.request(method, params, function(problem, result)
    if problem then
      tell(problem.message, vim.log.levels.ERROR)
    else
      done(result)
    end
  end)
end

local function command(name, argument)
  argument.uri = argument.uri or vim.uri_from_bufnr(0)
  local buffer = vim.api.nvim_get_current_buf()
  request("workspace/executeCommand", { command = "timeleap." .. name, arguments = { argument } }, function()
    if vim.api.nvim_buf_is_loaded(buffer) then
      vim.cmd("checktime " .. buffer)
    end
  end)
end

--- Open the session of the current buffer to be read, and call `done` with its state.
local function session(done)
  local directory = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(0), ":p:h")
  request("session/open", { path = directory, access = "readOnly", create = false }, done)
end

local function checkpoints(done)
  session(function(state)
    request("context/listCheckpoints", { sessionId = state.sessionId, limit = 1000 }, function(page)
      done(page.checkpoints, state)
    end)
  end)
end

local function label(checkpoint)
  local name = checkpoint.name or checkpoint.label or checkpoint.preview or ""
  return string.format("%d  %s  (%d messages, %d tokens)", checkpoint.id, name, checkpoint.messageCount, checkpoint.tokenCount)
end

local function choose(prompt, act)
  checkpoints(function(found, state)
    vim.ui.select(found, { prompt = prompt, format_item = label }, function(checkpoint)
      if checkpoint then
        act(checkpoint, state)
      end
    end)
  end)
end

-- Commands -----------------------------------------------------------------------------------------------------------------

--- Choose a checkpoint, and go to its line.
function M.checkpoints()
  choose("Checkpoint: ", function(checkpoint)
    vim.fn.cursor(1, 1)
    vim.fn.search([["u":\s*"]] .. checkpoint.uid .. [["]], "cw")
    vim.cmd("normal! zz0")
  end)
end

--- Choose a checkpoint and take the conversation back to before it; the server asks first.
function M.revert()
  choose("Revert to: ", function(checkpoint, state)
    command("revert", { checkpointUid = checkpoint.uid, head = state.head })
  end)
end

function M.fork()
  choose("Fork at: ", function(checkpoint)
    command("fork", { checkpointUid = checkpoint.uid })
  end)
end

function M.diff()
  choose("Compare with the present: ", function(checkpoint)
    command("compare", { checkpointUid = checkpoint.uid })
  end)
end

--- Choose a checkpoint, and list the files that changed since then.
function M.files()
  choose("Files since: ", function(checkpoint, state)
    local params = { sessionId = state.sessionId, from = { checkpointUid = checkpoint.uid }, to = vim.empty_dict() }
    request("files/diff", params, function(page)
      local items = {}
      for _, change in ipairs(page.changes) do
        table.insert(items, { filename = change.path, text = change.kind })
      end
      vim.fn.setqflist({}, " ", { title = "Changed since checkpoint " .. checkpoint.id, items = items })
      vim.cmd("copen")
    end)
  end)
end

--- Show each change of the log as it comes, or stop that.
function M.follow()
  local buffer = vim.api.nvim_get_current_buf()
  session(function(state)
    local on = M.following[state.sessionId] == nil
    M.following[state.sessionId] = on and buffer or nil
    tell(on and "following" or "no longer following")
  end)
end

function M.undo()
  command("undo", {})
end

function M.redo()
  command("redo", {})
end

function M.page()
  command("openPage", {})
end

function M.setup(given)
  settings = vim.tbl_deep_extend("force", settings, given or {})
  for name, act in pairs({
    Checkpoints = M.checkpoints, Revert = M.revert, Fork = M.fork, Diff = M.diff, Files = M.files,
    Follow = M.follow, Undo = M.undo, Redo = M.redo, Page = M.page,
  }) do
    vim.api.nvim_create_user_command("Timeleap" .. name, function() act() end, {})
  end
  local group = vim.api.nvim_create_augroup("timeleap", { clear = true })
  vim.api.nvim_create_autocmd({ "BufReadPost", "BufNewFile" }, {
    group = group,
    pattern = "*.jsonl",
    callback = function(event) M.attach(event.buf) end,
  })
  M.attach(vim.api.nvim_get_current_buf())
end

return M
