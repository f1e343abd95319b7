;;; timeleap.el --- Go back in the conversation of an AI agent  -*- lexical-binding: t; -*-

;; Package-Requires: ((emacs "27.1") (jsonrpc "1.0.14"))

;;; Commentary:

;; Open the log of a session (~/.local/share/timeleap/sessions/NAME/context.jsonl), then:
;;
;;   M-x timeleap-mode         turns in imenu, diagnostics by flymake, and the keys below
;;   C-c t c  timeleap-checkpoints   choose a checkpoint, and go to its line
;;   C-c t r  timeleap-revert        choose a checkpoint, and take the conversation back to before it
;;   C-c t u  timeleap-undo          undo the last of these;  C-c t U  timeleap-redo
;;   C-c t d  timeleap-diff          compare a checkpoint with the present
;;   C-c t f  timeleap-fork          begin another session at a checkpoint
;;   C-c t F  timeleap-files         files that changed since a checkpoint
;;   C-c t h  timeleap-hover         the record of this line in words
;;   C-c t t  timeleap-follow        show each change as it comes
;;   C-c t p  timeleap-page          the session as a page in the browser
;;
;; A command that takes something away asks first.  `timeleap-mode-maybe' in `find-file-hook' turns the mode on for logs.

;;; Code:

(require 'jsonrpc)
(require 'subr-x)
(require 'url-util)

(defgroup timeleap nil "Go back in the conversation of an AI agent." :group 'tools)

(defcustom timeleap-command '("timeleap" "serve")
  "Program and arguments of the server." :type '(repeat string))

(defvar timeleap--connection nil "The server, once it runs.")
(defvar timeleap--following nil "Session ids that are followed, each with its buffer.")

;;; The server

(defun timeleap--answer (_connection method params)
  "Answer the request METHOD of the server with PARAMS."
  (pcase method
    ('window/showMessageRequest
     (if (yes-or-no-p (concat (plist-get params :message) " ")) (list :title "Yes") :null))
    ('window/showDocument
     (let ((path (timeleap--path (plist-get params :uri))))
       (if (eq (plist-get params :external) t) (browse-url-of-file path) (find-file-other-window path))
       (list :success t)))
    (_ (jsonrpc-error "No method %s" method))))

(defun timeleap--hear (_connection method params)
  "Take the notification METHOD of the server with PARAMS."
  (pcase method
    ('context/didChange
     (when-let ((buffer (cdr (assoc (plist-get params :sessionId) timeleap--following))))
       (when (buffer-live-p buffer)
         (with-current-buffer buffer (timeleap--reread) (goto-char (point-max))))))
    ('textDocument/publishDiagnostics
     (when-let ((buffer (find-buffer-visiting (timeleap--path (plist-get params :uri)))))
       (with-current-buffer buffer
         (setq timeleap--diagnostics (append (plist-get params :diagnostics) nil))
         (timeleap--report-diagnostics))))))

(defun timeleap-connection ()
  "The connection to the server, which is started where it does not run."
  (unless (and timeleap--connection (jsonrpc-running-p timeleap--connection))
    (setq timeleap--following nil
          timeleap--connection
          (make-instance
           'jsonrpc-process-connection
           :name "timeleap" :events-buffer-scrollback-size 0
           :process (lambda ()
                      (make-process :name "timeleap" :command timeleap-command :connection-type 'pipe
                                    :coding 'utf-8-emacs-unix :noquery t :stderr (get-buffer-create "*timeleap errors*")))
           :request-dispatcher #'timeleap--answer :notification-dispatcher #'timeleap--hear))
    (jsonrpc-request timeleap--connection :initialize
                     (list :processId (emacs-pid) :clientInfo (list :name "Emacs")
                           :capabilities (list :textDocument (list :hover (list :contentFormat ["markdown"]))
                                               :window (list :showMessage (make-hash-table) :showDocument '(:support t)))))
    (jsonrpc-notify timeleap--connection :initialized (make-hash-table)))
  timeleap--connection)

(defun timeleap--ask (method &rest params)
  "The result of the request METHOD with PARAMS."
  (jsonrpc-request (timeleap-connection) method (or params (make-hash-table)) :timeout 3600))

(defun timeleap--uri () "The URI of this buffer's file."
  (concat "file://" (url-hexify-string (file-truename buffer-file-name) url-path-allowed-chars)))

(defun timeleap--path (uri) "The path of a file's URI."
  (decode-coding-string (url-unhex-string (string-remove-prefix "file://" uri)) 'utf-8))

(defun timeleap--look (what &rest params)
  "Ask the server for WHAT of this buffer's document, with further PARAMS."
  (apply #'timeleap--ask (intern (format ":textDocument/%s" what)) :textDocument (list :uri (timeleap--uri)) params))

(defun timeleap--run (command &rest argument)
  "Carry out COMMAND on this buffer's log with the members of ARGUMENT, and show what it made of the log."
  (let ((buffer (current-buffer)))
    (timeleap--ask :workspace/executeCommand :command (concat "timeleap." command)
                   :arguments (vector (append (list :uri (timeleap--uri)) argument)))
    (with-current-buffer buffer (timeleap--reread))))

(defun timeleap--reread () "Show what is in the file now."
  (unless (buffer-modified-p)
    (let ((line (line-number-at-pos)))
      (revert-buffer t t t)
      (goto-char (point-min))
      (forward-line (1- line)))))

;;; Checkpoints

(defun timeleap--session () "The state of the session of this buffer's log."
  (timeleap--ask :session/open :path (directory-file-name (file-name-directory (file-truename buffer-file-name)))
                 :access "readOnly" :create :json-false))

(defun timeleap--choose (prompt state)
  "Choose a checkpoint of the session in STATE with PROMPT."
  (let* ((page (timeleap--ask :context/listCheckpoints :sessionId (plist-get state :sessionId) :limit 1000))
         (choices (mapcar (lambda (each)
                            (cons (format "%d  %s  (%d messages, %d tokens)" (plist-get each :id)
                                          (or (plist-get each :name) (plist-get each :preview) "")
                                          (plist-get each :messageCount) (plist-get each :tokenCount))
                                  each))
                          (plist-get page :checkpoints)))
         (table (lambda (text predicate action)
                  (if (eq action 'metadata) '(metadata (display-sort-function . identity))
                    (complete-with-action action choices text predicate)))))
    (or (cdr (assoc (completing-read prompt table nil t) choices)) (user-error "No checkpoint was chosen"))))

(defun timeleap-checkpoints () "Choose a checkpoint, and go to its line."
  (interactive)
  (let ((uid (plist-get (timeleap--choose "Checkpoint: " (timeleap--session)) :uid)))
    (goto-char (point-min))
    (search-forward (format "\"%s\"" uid) nil t)
    (beginning-of-line)))

(defun timeleap-revert () "Choose a checkpoint, and take the conversation back to before it."
  (interactive)
  (let* ((state (timeleap--session)) (chosen (timeleap--choose "Revert to: " state)))
    (timeleap--run "revert" :checkpointUid (plist-get chosen :uid) :head (plist-get state :head))))

(defun timeleap-fork () "Choose a checkpoint, and begin another session with the messages before it."
  (interactive)
  (timeleap--run "fork" :checkpointUid (plist-get (timeleap--choose "Fork at: " (timeleap--session)) :uid)))

(defun timeleap-diff () "Choose a checkpoint, and compare it with the present."
  (interactive)
  (timeleap--run "compare" :checkpointUid (plist-get (timeleap--choose "Compare: " (timeleap--session)) :uid)))

(defun timeleap-files () "Choose a checkpoint, and list the files that changed since then."
  (interactive)
  (let* ((state (timeleap--session)) (chosen (timeleap--choose "Files since: " state))
         (page (timeleap--ask :files/diff :sessionId (plist-get state :sessionId) :to (make-hash-table)
                              :from (list :checkpointUid (plist-get chosen :uid)))))
    (with-help-window "*timeleap files*"
      (seq-doseq (change (plist-get page :changes))
        (princ (format "%-9s %s\n" (plist-get change :kind) (plist-get change :path)))))))

(defun timeleap-undo () "Undo the last revert, clear, compaction or restore." (interactive) (timeleap--run "undo"))
(defun timeleap-redo () "Do again what was undone last." (interactive) (timeleap--run "redo"))
(defun timeleap-page () "Show the session as a page." (interactive) (timeleap--run "openPage"))

(defun timeleap-hover () "Show the record of this line in words."
  (interactive)
  (let ((found (timeleap--look 'hover :position (list :line (1- (line-number-at-pos)) :character 0))))
    (message "%s" (if found (plist-get (plist-get found :contents) :value) "No record stands here"))))

(defun timeleap-follow () "Show each change of the log as it comes, or stop that."
  (interactive)
  (let ((session-id (plist-get (timeleap--session) :sessionId)))
    (if (assoc session-id timeleap--following)
        (setq timeleap--following (assoc-delete-all session-id timeleap--following))
      (push (cons session-id (current-buffer)) timeleap--following))
    (message (if (assoc session-id timeleap--following) "Following" "No longer following"))))

;;; The mode

(defvar-local timeleap--diagnostics nil "Diagnostics of this buffer as the server told them.")
(defvar-local timeleap--report nil "Function of flymake that takes diagnostics.")

(defun timeleap--line (number) "The bounds of the line NUMBER, from 0."
  (save-excursion (goto-char (point-min)) (forward-line number) (cons (point) (line-end-position))))

(defun timeleap--report-diagnostics () "Hand the diagnostics that are known to flymake."
  (when timeleap--report
    (funcall timeleap--report
             (mapcar (lambda (each)
                       (let ((place (timeleap--line (plist-get (plist-get (plist-get each :range) :start) :line))))
                         (flymake-make-diagnostic (current-buffer) (car place) (cdr place)
                                                  (if (eq (plist-get each :severity) 1) :error :warning)
                                                  (plist-get each :message))))
                     timeleap--diagnostics))))

(defun timeleap-flymake (report &rest _) "Have flymake's REPORT told what the server tells."
  (setq timeleap--report report)
  (timeleap--report-diagnostics))

(defun timeleap-imenu () "The turns of this log, for imenu."
  (mapcar (lambda (turn)
            (cons (plist-get turn :name)
                  (car (timeleap--line (plist-get (plist-get (plist-get turn :range) :start) :line)))))
          (timeleap--look 'documentSymbol)))

(defvar timeleap-mode-map
  (let ((map (make-sparse-keymap)))
    (dolist (key '(("c" . checkpoints) ("r" . revert) ("u" . undo) ("U" . redo) ("d" . diff) ("f" . fork) ("F" . files)
                   ("h" . hover) ("t" . follow) ("p" . page)))
      (define-key map (kbd (concat "C-c t " (car key))) (intern (format "timeleap-%s" (cdr key)))))
    map)
  "Keys of `timeleap-mode'.")

;;;###autoload
(define-minor-mode timeleap-mode
  "Show the log of a session, and go back in it."
  :lighter " Timeleap"
  (when timeleap-mode
    (setq-local imenu-create-index-function #'timeleap-imenu)
    (add-hook 'flymake-diagnostic-functions #'timeleap-flymake nil t)
    (flymake-mode 1)
    (jsonrpc-notify (timeleap-connection) :textDocument/didOpen
                    (list :textDocument (list :uri (timeleap--uri) :languageId "jsonl" :version 1 :text "")))))

;;;###autoload
(defun timeleap-mode-maybe () "Turn `timeleap-mode' on in the log of a session."
  (when (and buffer-file-name (string-match-p "/context\\(_[0-9]+\\)?\\.jsonl\\'" buffer-file-name))
    (timeleap-mode 1)))

(provide 'timeleap)
;;; timeleap.el ends here
